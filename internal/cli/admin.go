package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

// inspectCmd shows who holds a name.
type inspectCmd struct {
	Name string `arg:"" help:"The lock's name."`
}

// statusJSON is redlock.Status with times that people and programs read.
type statusJSON struct {
	Name    string     `json:"name"`
	Verdict string     `json:"verdict"`
	Token   string     `json:"token,omitempty"`
	Label   string     `json:"label,omitempty"`
	Left    string     `json:"left,omitempty"`
	Nodes   []nodeJSON `json:"nodes"`
}

type nodeJSON struct {
	Node        string `json:"node"`
	Token       string `json:"token,omitempty"`
	Label       string `json:"label,omitempty"`
	Left        string `json:"left,omitempty"`
	Type        string `json:"type,omitempty"`
	Quarantined bool   `json:"quarantined,omitempty"`
	Error       string `json:"error,omitempty"`
}

// Run is for kong.
func (c *inspectCmd) Run(a *app) error {
	l, err := a.locker()
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := l.Inspect(a.ctx, c.Name)
	if err != nil {
		return err
	}
	out := describe(s)
	if a.flags.JSON {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		a.printStatus(out)
	}
	switch out.Verdict {
	case "held":
		return nil
	case "free":
		return exitError(exitFailed)
	}
	return exitError(exitNoQuorum)
}

// describe puts a status into words.
func describe(s redlock.Status) statusJSON {
	out := statusJSON{Name: s.Name, Token: s.Token, Label: s.Label, Verdict: "free"}
	stuck := 0
	for _, n := range s.Nodes {
		j := nodeJSON{Node: n.Node, Token: n.Token, Label: n.Label, Quarantined: n.Quarantined}
		switch {
		case n.Err != nil:
			j.Error = n.Err.Error()
		case n.Type != "none" && n.Type != "string":
			j.Type = n.Type
			stuck++
		case n.Token != "" && n.TTL < 0:
			j.Left = "for ever: no TTL, so no lease"
			stuck++
		case n.Token != "":
			j.Left = n.TTL.Round(time.Millisecond).String()
		}
		out.Nodes = append(out.Nodes, j)
	}
	switch {
	case s.Held:
		out.Verdict, out.Left = "held", s.TTL.Round(time.Millisecond).String()
	case !s.Known:
		out.Verdict = "unknown"
	case stuck > len(s.Nodes)/2:
		out.Verdict = "taken by keys that are no locks"
	}
	return out
}

func (a *app) printStatus(s statusJSON) {
	fmt.Fprintf(a.stdout, "%s: %s", s.Name, s.Verdict)
	if s.Token != "" {
		fmt.Fprintf(a.stdout, " by %s, %s left", s.Token, s.Left)
	}
	if s.Label != "" {
		fmt.Fprintf(a.stdout, " (%s)", s.Label)
	}
	fmt.Fprintln(a.stdout)
	rows := [][]string{{"NODE", "HOLDER", "LEFT", "NOTE"}}
	for _, n := range s.Nodes {
		holder, note := n.Token, n.Error
		if holder == "" && n.Error == "" {
			holder = "-"
		}
		if n.Type != "" {
			note = "the key is a " + n.Type + ", not a lock"
		}
		if n.Quarantined {
			note = "quarantined " + note
		}
		rows = append(rows, []string{n.Node, holder, n.Left, note})
	}
	a.table(rows)
}

// breakCmd frees a name from one holder.
type breakCmd struct {
	Name  string `arg:"" help:"The lock's name."`
	Token string `help:"The holder's token, as inspect shows it." required:"" placeholder:"T"`
	Yes   bool   `help:"Do it. The holder's work may go on for a while: it finds out with its next renewal."`
}

// Run is for kong.
func (c *breakCmd) Run(a *app) error {
	if !c.Yes {
		return &usageError{fmt.Sprintf("would free %q from the holder with token %s, whose work may still go on; say --yes to do it", c.Name, c.Token)}
	}
	l, err := a.locker()
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Break(a.ctx, c.Name, c.Token); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: that holder does not have it any more\n", c.Name)
	return nil
}

// initCmd declares nodes empty.
type initCmd struct {
	Replace bool `help:"Change N or the max TTL of a deployment to the one given. Nothing is locked until the quarantine ends." xor:"how"`
	Force   bool `help:"Do not mind keys of the prefix: nobody holds a lock of redlock under it." xor:"how"`
}

// Run is for kong.
func (c *initCmd) Run(a *app) error {
	l, err := a.locker()
	if err != nil {
		return err
	}
	defer l.Close()
	switch {
	case c.Replace:
		err = l.Reseal(a.ctx)
	case c.Force:
		err = l.InitForce(a.ctx)
	default:
		err = l.Init(a.ctx)
	}
	if errors.Is(err, redlock.ErrQuarantined) {
		fmt.Fprintln(a.stderr, "redlock: notice:", err) // nothing is wrong: the node votes again by itself
		return nil
	}
	if err == nil {
		fmt.Fprintln(a.stdout, "the nodes are sealed")
	}
	return err
}

// checkCmd reports on the nodes.
type checkCmd struct{}

// Run is for kong.
func (c *checkCmd) Run(a *app) error {
	l, err := a.locker()
	if err != nil {
		return err
	}
	defer l.Close()
	reports := l.Check(a.ctx)
	sound := true
	rows := [][]string{{"NODE", "SEVERITY", "FINDING", "WHAT TO DO"}}
	for _, r := range reports {
		sound = sound && r.OK
		if len(r.Findings) == 0 {
			rows = append(rows, []string{r.Node, "sound", "", ""})
		}
		for _, f := range r.Findings {
			rows = append(rows, []string{r.Node, f.Severity.String(), f.What, f.Do})
		}
	}
	if a.flags.JSON {
		if err := a.printJSON(struct {
			Sound bool                 `json:"sound"`
			Nodes []redlock.NodeReport `json:"nodes"`
		}{sound, reports}); err != nil {
			return err
		}
	} else {
		a.table(rows)
	}
	if !sound {
		return exitError(exitFailed)
	}
	return nil
}
