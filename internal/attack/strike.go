package attack

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/faultproxy"
)

// undoing bounds how long a fault takes to be undone, on a machine with load.
const undoing = 30 * time.Second

// storm carries out the schedule. When it returns everything is undone; nodes
// may be in quarantine still.
func (r *run) storm(ctx context.Context) {
	var striking, recovering sync.WaitGroup
	watch, cancel := context.WithCancel(ctx)
	for i := range r.schedule {
		f := &r.schedule[i]
		if sleep(ctx, f.At-(r.clock.now()-r.began)) != nil {
			break
		}
		if !r.admit(f) {
			continue
		}
		striking.Go(func() {
			r.strike(ctx, f)
			recovering.Go(func() { r.recover(watch, f) })
		})
	}
	_ = sleep(ctx, r.c.For-r.c.Quiet-(r.clock.now()-r.began))
	striking.Wait()
	cancel() // from now on nothing is hit, so nobody asks who is sound
	recovering.Wait()
}

// admit reports whether a fault may be made now. The schedule keeps to the
// profile, but a server may have taken longer to come back than it was given,
// and then the fault is left out.
func (r *run) admit(f *Fault) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	faulty := len(f.Nodes)
	for i, b := range r.busy {
		if b {
			faulty++
			if slices.Contains(f.Nodes, i) {
				r.skipped++
				return false
			}
		}
	}
	if r.c.Profile == Assume && len(f.Nodes) > 0 && faulty > minority(len(r.busy)) {
		r.skipped++
		return false
	}
	for _, i := range f.Nodes {
		r.busy[i] = true
	}
	r.active++
	return true
}

// strike makes a fault and undoes it.
func (r *run) strike(ctx context.Context, f *Fault) {
	rec := FaultRecord{AtMillis: r.clock.now().Milliseconds(), Kind: f.Kind, Node: r.nodeNames(f), Client: r.clientName(f), Hit: f.Nodes}
	err := r.each(f, func(i int) error { return r.hit(ctx, f, i) })
	_ = sleep(ctx, f.For)
	// A run that is cancelled leaves no server hanging either.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer cancel()
	if undo := r.each(f, func(i int) error { return r.undo(after, f, i) }); undo != nil {
		r.fail(fmt.Errorf("attack: %s of %s%s could not be undone: %w", f.Kind, rec.Node, rec.Client, undo))
	}
	if err != nil {
		rec.Error = err.Error()
	}
	rec.Millis = r.clock.now().Milliseconds() - rec.AtMillis
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	r.done = append(r.done, rec)
}

// each does something for all that a fault hits, at once: a majority has to be
// gone within one hold.
func (r *run) each(f *Fault, do func(int) error) error {
	if len(f.Nodes) == 0 {
		return do(f.Client)
	}
	errs := make([]error, len(f.Nodes))
	var wg sync.WaitGroup
	for i, node := range f.Nodes {
		wg.Go(func() { errs[i] = do(node) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) nodeNames(f *Fault) string {
	var names []string
	for _, i := range f.Nodes {
		names = append(names, r.field.members[i].name)
	}
	return strings.Join(names, ", ")
}

func (r *run) clientName(f *Fault) string {
	if len(f.Nodes) > 0 {
		return ""
	}
	return clientName(f.Client)
}

// recover waits until the nodes of a fault are sound again.
func (r *run) recover(ctx context.Context, f *Fault) {
	if len(f.Nodes) == 0 {
		return
	}
	wait := f.Faulty - f.For
	if r.c.Profile == Beyond {
		wait = settle
	}
	for sleep(ctx, wait) == nil {
		well := r.c.Profile == Beyond // nothing is well there
		if !well {
			sound := r.field.sound(ctx)
			well = !slices.ContainsFunc(f.Nodes, func(i int) bool { return !sound[i] })
		}
		if well {
			r.mu.Lock()
			for _, i := range f.Nodes {
				r.busy[i] = false
			}
			r.mu.Unlock()
			return
		}
		wait = 100 * time.Millisecond
	}
}

// hit makes a fault at one node, or client.
func (r *run) hit(ctx context.Context, f *Fault, i int) error {
	switch f.Kind {
	case PauseClient:
		return r.fleet.pause(i)
	case KillClient:
		return r.fleet.replace(i)
	}
	m := r.field.members[i]
	ask := func(args ...any) error {
		return m.with(func(c *redis.Client) error { return c.Do(ctx, args...).Err() })
	}
	switch f.Kind {
	case KillEmpty, KillAOF:
		m.server.Kill()
	case StopServer:
		m.server.Stop()
	case FlushAll:
		return ask("FLUSHALL")
	case ScriptFlush:
		return ask("SCRIPT", "FLUSH")
	case MaxMemory:
		return ask("CONFIG", "SET", "maxmemory", "1")
	case ReplicaNowhere:
		return ask("REPLICAOF", "127.0.0.1", "1")
	case ReplicaPeer:
		host, port, _ := strings.Cut(r.field.members[f.Peer].server.Addr(), ":")
		return ask("REPLICAOF", host, port)
	case DeleteKeys:
		return m.with(func(c *redis.Client) error {
			keys, err := r.field.keys(ctx, c)
			if err != nil || len(keys) == 0 {
				return err
			}
			return c.Del(ctx, keys...).Err()
		})
	default:
		r.cross(m, f)
	}
	return nil
}

// cross makes a fault on the way to a node.
func (r *run) cross(m *member, f *Fault) {
	var p faultproxy.Fault
	switch f.Kind {
	case BlackholeUp:
		p.BlackholeUp = true
	case BlackholeDown:
		p.BlackholeDown = true
	case HoldUp:
		p.HoldUp = true
	case HoldDown:
		p.HoldDown = true
	case Delay:
		p.DelayUp, p.DelayDown = f.Delay, f.Delay
	case CutReply:
		p.CutReplyAfter = f.Amount
	case DropReplies:
		p.DropReplies, p.DropThenReset = f.Amount, true
	case Refuse:
		p.RefuseNew = true
	}
	m.proxy.Set(p)
	if f.Kind == Refuse || f.Kind == Reset {
		m.proxy.Reset()
	}
}

// undo ends a fault at one node, or client.
func (r *run) undo(ctx context.Context, f *Fault, i int) error {
	if len(f.Nodes) == 0 {
		if f.Kind == PauseClient {
			r.fleet.resume(i)
		}
		return nil
	}
	m := r.field.members[i]
	ask := func(args ...any) error {
		return m.with(func(c *redis.Client) error { return c.Do(ctx, args...).Err() })
	}
	switch f.Kind {
	case KillEmpty, KillAOF:
		return m.server.Restart(ctx, f.Kind == KillEmpty)
	case StopServer:
		m.server.Cont()
	case MaxMemory:
		return persist(ctx, func() error { return ask("CONFIG", "SET", "maxmemory", strconv.Itoa(0)) })
	case ReplicaNowhere, ReplicaPeer:
		return persist(ctx, func() error { return ask("REPLICAOF", "NO", "ONE") })
	case FlushAll, ScriptFlush, DeleteKeys:
	default:
		m.proxy.Heal()
	}
	return nil
}

// persist tries until it works: a server under load may be late, and a fault
// that stays would make the rest of the run worthless.
func persist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || sleep(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}
