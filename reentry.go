package redlock

import (
	"context"
	"runtime"
	"time"
)

// WithReentry lets a call under a context that carries a lease of the same
// Locker and name return a nested lease of it, where it would otherwise fail at
// once, since it would wait for itself. A context carries a lease when it was
// given by [Locker.Do] or comes from [Lease.Context].
//
// A nested lease costs no round trip and changes nothing: token, TTL, renewal,
// label and validity are the outer lease's, whatever the nested call says. What
// it asks for itself and cannot have so, a [WithMinHold] or [WithMaxHold] that
// is not the outer lease's, or [WithFencing] where the outer lease has no number,
// is a *[ConfigError]. Extend lengthens the validity
// of both, a loss ends both. Each is released for itself, in any order: a
// Release ends its own handle and Context, the last one frees the name. Hooks
// are told of the lease, not of its handles. Default: no reentry.
func WithReentry() LockOption {
	return lockOption(func(s *lockSettings) { s.reentry = true })
}

// grip is a nested handle on a holder. The holder must not lead back to the
// Lease, or the loss of the last reference to it would never be noticed.
type grip struct {
	b      *holder
	gone   bool // released, or unreachable; guarded by b.mu
	cancel context.CancelCauseFunc
}

// grips are the handles on a holder beside the one that acquired it.
type grips struct {
	first  bool    // that one is gone, and nested ones were left
	nested []*grip // those that are not gone
}

// open is how many handles are not gone.
func (g *grips) open() int {
	if g.first {
		return len(g.nested)
	}
	return 1 + len(g.nested)
}

// drop takes a nested handle away.
func (g *grips) drop(one *grip) {
	for i, other := range g.nested {
		if other == one {
			g.nested = append(g.nested[:i], g.nested[i+1:]...)
			return
		}
	}
}

// outer is the lease that the call would wait for; nil for none.
func (w *waiting) outerIn(ctx context.Context) *Lease {
	if _, under := FromContext(ctx); !under {
		return nil
	}
	le, _ := ctx.Value(heldKey{w.l, w.name}).(*Lease)
	return le
}

// nest makes a nested lease of the one that the context carries. Nil: that one
// ended in this moment, and the call is like any other.
func (w *waiting) nest(ctx context.Context) (*Lease, error) {
	outer := w.outer
	b := outer.b
	b.mu.Lock()
	defer b.mu.Unlock()
	now := read(w.l.set.clock).instant
	if outer.gen != b.h.gen || outer.gone() || !b.h.alive(now) {
		return nil, nil //nolint:nilnil // neither a lease nor an error: go on
	}
	if w.o.fencing && outer.fence == 0 && !b.h.mutant.has(mutantNestedUnfenced) {
		return nil, &ConfigError{"fencing", "", "was asked for, and the outer lease was acquired without: a nested lease has the outer one's number; " +
			"give WithFencing to the outer call"}
	}
	own := &w.l.set.lock
	if err := differs("max hold", w.o.maxHold, own.maxHold, b.opts.maxHold); err != nil {
		return nil, err
	}
	if err := differs("min hold", w.o.minHold, own.minHold, b.opts.minHold); err != nil {
		return nil, err
	}
	g := &grip{b: b}
	b.grips.nested = append(b.grips.nested, g)
	le := &Lease{b: b, gen: b.h.gen, base: ctx, grip: g, fence: outer.fence}
	le.cleanup = runtime.AddCleanup(le, (*grip).abandon, g)
	return le, nil
}

// differs refuses what a nested call asks for and the outer lease does not have.
func differs(what string, asked, usual, outer time.Duration) error {
	if asked == usual || asked == outer {
		return nil
	}
	return &ConfigError{what, asked.String(), "is not the outer lease's, " + outer.String() +
		", and a nested lease changes nothing of it; leave the option out, or give it to the outer call"}
}

// gone says whether this handle was released while others were left. The guard
// is held.
func (le *Lease) gone() bool {
	if le.grip != nil {
		return le.grip.gone
	}
	return le.b.grips.first
}

// over is gone without the guard.
func (le *Lease) over() bool {
	le.b.mu.Lock()
	defer le.b.mu.Unlock()
	return le.gen == le.b.h.gen && le.gone()
}

// letGo ends one of several handles, and says whether it did: the last one is
// not let go of but frees the name. The guard is held, and is given up if it did.
func (b *holder) letGo(le *Lease) bool {
	if b.grips.open() <= 1 || b.h.mutant.has(mutantInnerFrees) {
		return false
	}
	le.end = b.h.valid.until()
	var cancel context.CancelCauseFunc
	if g := le.grip; g != nil {
		g.gone, cancel = true, g.cancel
		b.grips.drop(g)
	} else {
		b.grips.first, cancel = true, b.cancel
		b.cancel = nil
	}
	b.mu.Unlock()
	if cancel != nil {
		cancel(ErrReleased)
	}
	return true
}

// canceller ends the Contexts of all handles. The guard is held when it is made,
// and not when it is called. Nil when nobody has one.
func (b *holder) canceller() context.CancelCauseFunc {
	if len(b.grips.nested) == 0 {
		return b.cancel
	}
	all := []context.CancelCauseFunc{b.cancel}
	for _, g := range b.grips.nested {
		all = append(all, g.cancel)
	}
	return func(cause error) {
		for _, cancel := range all {
			if cancel != nil {
				cancel(cause)
			}
		}
	}
}

// abandon gives up a nested handle that nobody can release any more. The lease
// is given up with the last handle on it.
func (g *grip) abandon() {
	b := g.b
	b.mu.Lock()
	last := b.grips.open() <= 1
	if !last {
		g.gone = true
		b.grips.drop(g)
	}
	b.mu.Unlock()
	if last {
		b.abandon()
	}
}
