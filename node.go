package redlock

import (
	"github.com/redlock-go/redlock/internal/seam"
)

// Node is one voter: an independent Redis master. It is made by [Master],
// [Client] or [ParseNodes] and handed to [New]; it holds no connection of its
// own and does no I/O before the Locker's first call.
type Node struct {
	dialer seam.Dialer
	// where is the network and address, for finding one that is listed twice.
	where string
	// err is what was wrong with the arguments; New reports it.
	err error
}

// String names the node without its secrets.
func (n Node) String() string {
	if n.dialer == nil {
		return "(no node)"
	}
	return n.dialer.Node()
}

// NodeOver makes a voter of any transport. Its parameter is internal to this
// module: it serves package redlocktest, the demo and the simulator, which put
// in-memory nodes behind the same lock.
func NodeOver(d seam.Dialer) Node {
	return Node{dialer: d, where: d.Node()}
}
