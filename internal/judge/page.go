package judge

import (
	"fmt"
	"io"
	"time"

	"github.com/anishathalye/porcupine"
)

// Visualize writes a page (HTML) that shows the operations of a name and how far
// a lock allows them: the part that fails, or when none does all of them. What the
// model does not ask about, such as failed attempts, is shown beside it. It
// reports whether the name fails; the timeout is as that of Linearizable.
func Visualize(w io.Writer, h History, name string, timeout time.Duration) (failing bool, err error) {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ids := make(map[string]int)
	client := func(c string) int {
		if _, ok := ids[c]; !ok {
			ids[c] = len(ids)
		}
		return ids[c]
	}
	l := read(h)
	p, result := l.failing(name, timeout, client)
	if result == porcupine.Ok {
		p = piece{ops: operations(l.named[name], client)}
	}
	m := lockModel(p.holder)
	_, info := porcupine.CheckOperationsVerbose(m, p.ops, timeout)
	info.AddAnnotations(beside(h, name, p, client))
	if err := porcupine.Visualize(m, info, w); err != nil {
		return false, fmt.Errorf("page of %q: %w", name, err)
	}
	return result != porcupine.Ok, nil
}

// beside are the operations within the piece's time that are not in it.
func beside(h History, name string, p piece, client func(string) int) []porcupine.Annotation {
	from, to := int64(0), int64(0)
	for i, o := range p.ops {
		if i == 0 {
			from = o.Call // they are in the order of their calls
		}
		to = max(to, o.Return)
	}
	var notes []porcupine.Annotation
	for i := range h {
		o := &h[i]
		if o.Name != name || o.promises() || len(p.ops) > 0 && (int64(o.End) < from || int64(o.Start) > to) {
			continue
		}
		notes = append(notes, porcupine.Annotation{
			ClientId: client(o.Client), Start: int64(o.Start), End: int64(o.End),
			Description: fmt.Sprintf("%s: %s %s", o.Client, o.Kind, o.Outcome), Details: o.String(),
			BackgroundColor: "#dddddd",
		})
	}
	return notes
}
