package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model is one lock per name, which is free or held by a token. The question
// is whether some order of the operations, each put at one moment between its
// call and its return, is one that such a lock allows.
//
//   - An Acquire that is OK takes the lock: it was free, at some moment of the call.
//   - An Extend that is OK finds it held by its token.
//   - Every grant has an end, which is no call of a client, since leases end by
//     themselves. It frees the lock, and it is not before the promised interval
//     is over (the start of the Release, the loss seen, the last Until): until
//     then the client may work. So two that hold at once have no order: the
//     second Acquire returned before the end of the first can be put anywhere.
//   - The end need not be later either. A server frees the lock when it likes
//     after that, but all that could show is that an Acquire fails, and one may
//     fail for any reason. Whatever order there is, the end can be moved forward
//     to the moment at which the interval is over, and the order stays legal. So
//     the end is called and returns at that very moment, which is what lets a
//     history be cut into pieces. Only where the interval was over before the
//     Acquire returned, the end may be as late as that return: the lock may
//     have been taken so late.
//   - Calls that touch in one instant count as concurrent, so a hand-over in one
//     instant has an order: end, then Acquire.
//   - An Acquire that Failed demands nothing. One that is Unknown may have taken
//     the lock at any time after its start, and lost it at any time after that,
//     or may never have taken it. The usual way is to let it return at infinity,
//     but here never having happened fits whenever anything fits: take it out of
//     an order, together with its end, and what is left is an order still. So it
//     is left out, which is the same verdict without its exponential price.
//     An Extend that is Unknown, or a Release whatever became of it, likewise
//     frees and takes nothing but what the end says.
//   - An Extend without a grant is EarlyTrust's affair: if the Acquire is Unknown,
//     a lock could have behaved like that.
//
// What the model sees beyond Overlaps are the calls themselves: a grant whose
// interval is empty still took the lock at some moment, and must find it free.

// input of an operation of the model; Kind Lost stands for the end of a hold.
type input struct {
	kind  Kind
	token string
	from  *Op // that it comes from
}

// lockModel is a lock that is held by the given token, or free.
func lockModel(holder string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return holder },
		Step: func(state, in, _ any) (bool, any) {
			now, i := state.(string), in.(input)
			switch i.kind {
			case Acquire:
				return now == "", i.token
			case Extend:
				return now == i.token, now
			default:
				return now == i.token, ""
			}
		},
		DescribeOperation: func(in, _ any) string {
			i := in.(input)
			what := string(i.kind)
			if i.kind == Lost {
				what = "end, by " + string(i.from.Kind)
				if i.from.promises() {
					what = "end, by lapse"
				}
			}
			return fmt.Sprintf("%s: %s (token %s)", i.from.Client, what, i.token)
		},
		DescribeState: func(state any) string {
			if state == "" {
				return "free"
			}
			return "held by " + state.(string)
		},
	}
}

// operations are what the model is asked about for one name, by their calls.
func operations(holds []*hold, client func(string) int) []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(kind Kind, o *Op, token string, call, ret time.Duration) {
		ops = append(ops, porcupine.Operation{
			ClientId: client(o.Client), Input: input{kind, token, o}, Call: int64(call), Return: int64(ret),
		})
	}
	for _, b := range holds {
		for i := range b.given {
			o := &b.given[i]
			add(o.Kind, o, b.key.token, o.Start, o.End)
		}
		by := b.closer
		if by == nil {
			by = &b.got
		}
		add(Lost, by, b.key.token, b.to, max(b.to, b.got.End))
	}
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}

// piece is a part of a name's operations that is judged alone.
type piece struct {
	holder string // of the lock when it begins
	ops    []porcupine.Operation
}

// pieceSize is how many operations a piece has at least. The price of a check
// grows with the square, and a page with more is not readable.
const pieceSize = 200

// pieces cuts a name's operations where the state of the lock is known: at a
// moment within a promised interval the lock is that token's in every order
// there is. What returned before belongs to the piece before. What is under way
// belongs after, if it cannot have been before: an Acquire whose own hold ends
// later would hold at the cut, so it comes after; an Extend of the holder may as
// well be after. At a moment where anything else is under way there is no cut;
// that includes the end of an Acquire under way whose own hold ended before.
func pieces(holds []*hold, size int, client func(string) int) []piece {
	var done []piece
	now := piece{ops: operations(holds, client)}
	for _, b := range holds { // by their beginnings
		at := b.from + 1
		if at >= b.to {
			continue
		}
		if before, after, ok := now.cut(int64(at), size, b.key.token); ok {
			done = append(done, before)
			now = after
		}
	}
	return append(done, now)
}

// cut cuts at a moment at which the token holds, if that may be and the piece
// before is large enough.
func (p piece) cut(at int64, size int, token string) (before, after piece, ok bool) {
	n, _ := slices.BinarySearchFunc(p.ops, at+1, func(o porcupine.Operation, t int64) int { return cmp.Compare(o.Call, t) })
	if n < size {
		return before, after, false
	}
	before.holder, after.holder = p.holder, token
	for _, o := range p.ops[:n] {
		i := o.Input.(input)
		switch {
		case o.Return < at:
			before.ops = append(before.ops, o)
		case i.kind == Acquire, i.kind == Extend && i.token == token:
			after.ops = append(after.ops, o)
		default:
			return piece{}, piece{}, false
		}
	}
	if len(before.ops) < size {
		return piece{}, piece{}, false
	}
	after.ops = append(after.ops, p.ops[n:]...)
	return before, after, true
}

// Linearizable finds names whose operations no lock allows, in any order. It
// gives up on a name after the timeout (of real time; 0 is DefaultTimeout), which is a
// violation too: what was not judged is not acquitted.
func Linearizable(h History, timeout time.Duration) []Violation {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	var found []Violation
	l := read(h)
	for _, name := range h.names() {
		if p, result := l.failing(name, timeout, noClient); result != porcupine.Ok {
			found = append(found, p.violation(name, result, timeout))
		}
	}
	return found
}

func noClient(string) int { return 0 }

// failing is the first piece of a name that the model does not allow.
func (l *ledger) failing(name string, timeout time.Duration, client func(string) int) (piece, porcupine.CheckResult) {
	until := time.Now().Add(timeout)
	for _, p := range pieces(l.named[name], pieceSize, client) {
		if len(p.ops) == 0 {
			continue // nobody got the name
		}
		left := max(time.Until(until), 1) // 0 would be for ever
		if result := porcupine.CheckOperationsTimeout(lockModel(p.holder), p.ops, left); result != porcupine.Ok {
			return p, result
		}
	}
	return piece{}, porcupine.Ok
}

// violation says where a piece fails: at what the longest legal order leaves out.
func (p piece) violation(name string, result porcupine.CheckResult, timeout time.Duration) Violation {
	from, to := time.Duration(p.ops[0].Call), time.Duration(0)
	for i := range p.ops {
		to = max(to, time.Duration(p.ops[i].Return))
	}
	v := Violation{Rule: RuleTimeout, Name: name, At: from}
	if result == porcupine.Unknown {
		v.Text = fmt.Sprintf("%d operations of %q from %v to %v were not judged within %v", len(p.ops), name, from, to, timeout)
		return v
	}
	v.Rule = RulePorcupine
	_, info := porcupine.CheckOperationsVerbose(lockModel(p.holder), p.ops, timeout)
	var best []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(best) {
			best = order
		}
	}
	fits := make([]bool, len(p.ops))
	for _, i := range best {
		fits[i] = true
	}
	odd := -1
	for i := range p.ops {
		if !fits[i] && (odd < 0 || p.ops[i].Return < p.ops[odd].Return) {
			odd = i
		}
	}
	m := lockModel(p.holder)
	state := "free"
	if p.holder != "" {
		state = m.DescribeState(p.holder)
	}
	if len(best) > 0 {
		last := p.ops[best[len(best)-1]]
		v.Ops = append(v.Ops, *last.Input.(input).from)
		state = "after " + m.DescribeOperation(last.Input, nil)
	}
	o := p.ops[odd]
	v.At, v.Ops = time.Duration(o.Return), append(v.Ops, *o.Input.(input).from)
	v.Text = fmt.Sprintf("no order of the %d operations of %q from %v to %v is a lock's; the longest has %d (%s), and %s, called at %v, had returned at %v",
		len(p.ops), name, from, to, len(best), state, m.DescribeOperation(o.Input, nil), time.Duration(o.Call), time.Duration(o.Return))
	return v
}
