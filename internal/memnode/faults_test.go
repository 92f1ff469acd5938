package memnode

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
)

// newProcess demands that both ids changed and the old sessions are gone.
func (b *bench) newProcess(run, repl string) {
	b.t.Helper()
	require.NotEqual(b.t, run, b.RunID())
	require.NotEqual(b.t, repl, b.Replid())
	require.ErrorIs(b.t, b.Exec(b.s, make([]seam.Call, 1), make([]seam.Reply, 1)), io.EOF)
	b.s = b.NewSession()
	f := b.hello().Facts
	require.EqualValues(b.t, 1, f.ClientID)
	require.Zero(b.t, f.UptimeSecond)
}

func TestKillAndStartKeepTheData(t *testing.T) {
	b := newBench(t)
	b.Put("k", "a", time.Minute)
	run, repl := b.RunID(), b.Replid()
	b.advance(10 * time.Second)
	b.Start() // it serves: no restart
	require.Equal(t, run, b.RunID())
	b.Kill()
	require.ErrorIs(t, b.Exec(b.s, nil, nil), io.EOF)
	early := b.NewSession()
	b.Start()
	require.ErrorIs(t, b.Exec(early, nil, nil), io.EOF)
	b.newProcess(run, repl)
	b.stands("k", "a", 50_000)
}

func TestForgetIsARestartWithEmptyMemory(t *testing.T) {
	b := newBench(t)
	for _, kill := range []bool{false, true} {
		b.Put("k", "a", 0)
		run, repl := b.RunID(), b.Replid()
		if kill {
			b.Kill()
		}
		b.Forget()
		b.newProcess(run, repl)
		require.Empty(t, b.Keys())
	}
}

func TestFlushKeepsAllButTheData(t *testing.T) {
	b := newBench(t)
	b.Put("k", "a", 0)
	before := b.hello()
	b.Flush()
	require.Empty(t, b.Keys())
	require.Equal(t, before, b.hello())
}

func TestRestoreBringsBackACopy(t *testing.T) {
	b := newBench(t)
	b.Put("old", "a", time.Minute)
	snap := b.Snapshot()
	b.Put("new", "b", 0)
	b.Delete("old")
	b.advance(20 * time.Second)
	before := b.hello()
	for range 2 { // a copy can be used again
		repl := b.Replid()
		b.Restore(snap)
		require.NotEqual(t, repl, b.Replid())
		b.stands("old", "a", 40_000)
		b.absent("new")
		b.Flush()
	}
	after := b.hello()
	require.Equal(t, before.Facts, after.Facts) // also the session and the run_id
	require.True(t, after.Master)
}

func TestRefusals(t *testing.T) {
	b := newBench(t)
	oom, loading := errors.New("OOM command not allowed"), errors.New("LOADING")
	b.Refuse(seam.Acquire, oom)
	require.Equal(t, seam.Reply{Code: seam.Error, Err: oom}, b.do(acquire("k", "a", time.Second)))
	require.Equal(t, seam.OK, b.do(seam.Call{Op: seam.Probe}).Code)
	b.RefuseAll(loading)
	require.Equal(t, loading, b.do(acquire("k", "a", time.Second)).Err)
	require.Equal(t, loading, b.do(seam.Call{Op: seam.Probe}).Err)
	b.RefuseAll(nil)
	require.Equal(t, oom, b.do(acquire("k", "a", time.Second)).Err)
	b.Refuse(seam.Acquire, nil)
	require.Equal(t, seam.OK, b.do(acquire("k", "a", time.Second)).Code)
	require.Error(t, b.do(seam.Call{}).Err) // what no server knows
	require.Equal(t, 7, b.Commands())
}

func TestClientKill(t *testing.T) {
	b := newBench(t)
	victim := b.NewSession()
	alive := func(s *Session) bool { return b.Exec(s, nil, nil) == nil }
	kill := func(id int64, addr string) {
		require.Equal(t, seam.OK, b.do(seam.Call{Op: seam.Kill, ClientID: id, Addr: addr}).Code)
	}
	kill(victim.id, "127.0.0.1:1") // an id that was given again after a restart
	kill(99, victim.addr)
	require.True(t, alive(victim))
	kill(victim.id, victim.addr)
	require.False(t, alive(victim))
	kill(victim.id, victim.addr) // gone is fine
	kill(b.s.id, b.s.addr)       // never the one it came by
	require.True(t, alive(b.s))
}
