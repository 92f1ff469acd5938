package attack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/faultproxy"
	"github.com/redlock-go/redlock/internal/judge"
	"github.com/redlock-go/redlock/internal/redisproc"
)

// recorded is what a recorder writes when told so.
func recorded(t *testing.T, tell func(*recorder)) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "h.jsonl")
	file, err := os.Create(path)
	require.NoError(t, err)
	r := &recorder{file: file}
	tell(r)
	require.NoError(t, r.close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

func TestAnOperationUnderWayAtADeathIsUnknown(t *testing.T) {
	acquire := judge.Op{Client: "c/w1", Kind: judge.Acquire, Name: "n", Start: 10}
	got := acquire
	got.Token, got.End, got.Until, got.Outcome = "t", 20, 100, judge.OK
	release := judge.Op{Client: "c/w1", Kind: judge.Release, Name: "n", Token: "t", Start: 30}
	other := judge.Op{Client: "c/w2", Kind: judge.Acquire, Name: "n", Start: 10}
	text := recorded(t, func(r *recorder) {
		r.begin(acquire)
		r.begin(other)
		r.done(got)
		r.begin(release)
	})
	h, err := readHistory(text, 50)
	require.NoError(t, err)
	release.Outcome, release.End = judge.Unknown, 50
	other.Outcome, other.End = judge.Unknown, 50
	require.Equal(t, judge.History{got, other, release}, h)
	require.True(t, judge.Judge(h, judge.Options{TTL: time.Second}).OK())

	// It dies while it writes that it begins to release: then it has not begun.
	h, err = readHistory(text[:len(text)-5], 50)
	require.NoError(t, err)
	require.Equal(t, judge.History{got, other}, h)
	// What is broken elsewhere is no death.
	_, err = readHistory(bytes.Replace(text, []byte(`{"c":"c/w1","k":"acquire","n":"n","t"`), []byte(`{"c":`), 1), 50)
	require.Error(t, err)
	h, err = readHistory(nil, 50)
	require.NoError(t, err)
	require.Empty(t, h)
}

func TestTheClockOfHistoriesIsThatOfLeases(t *testing.T) {
	origin, err := monotonic()
	require.NoError(t, err)
	c, err := newClock(origin)
	require.NoError(t, err)
	before := c.now()
	at := c.of(time.Now())
	after := c.now()
	require.LessOrEqual(t, before, at+anchorSlack)
	require.LessOrEqual(t, at, after+anchorSlack)
}

func TestAClientRecordsWhatItDoes(t *testing.T) {
	needServers(t)
	server, err := redisproc.Start(t.Context(), redisproc.Options{})
	require.NoError(t, err)
	defer func() { _ = server.Close() }()
	proxy, err := faultproxy.New(server.Addr())
	require.NoError(t, err)
	defer proxy.Close()
	origin, err := monotonic()
	require.NoError(t, err)
	o := order{
		Client: "me", File: filepath.Join(t.TempDir(), "me.jsonl"), Nodes: []doorway{{server.Addr(), proxy.Addr()}},
		Prefix: "p:", Names: 1, Workers: 3, TTL: 300 * time.Millisecond, Origin: origin, Profile: Beyond, // no quarantine to wait for
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	in, parent := io.Pipe()
	heard, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- childMain(in, out)
		_ = out.Close()
	}()
	_, err = parent.Write(append(text, '\n'))
	require.NoError(t, err)
	// Of so many holds some are long enough to be renewed, but once in 30 000 runs.
	told := bufio.NewReader(heard)
	for grants := 0; grants < 40; {
		line, err := told.ReadString('\n')
		require.NoError(t, err)
		grants, err = strconv.Atoi(strings.TrimSpace(line))
		require.NoError(t, err)
	}
	require.NoError(t, parent.Close())
	_, _ = io.Copy(io.Discard, told)
	require.NoError(t, <-done)
	require.Positive(t, proxy.Stats().Accepted, "it goes through the proxy")

	raw, err := os.ReadFile(o.File)
	require.NoError(t, err)
	h, err := readHistory(raw, 0)
	require.NoError(t, err)
	v := judge.Judge(h, judge.Options{TTL: o.TTL})
	require.True(t, v.OK(), v)
	require.Zero(t, v.Unknowns)
	kinds := make(map[judge.Kind]int)
	for _, op := range h {
		kinds[op.Kind]++
	}
	require.GreaterOrEqual(t, v.Grants, 40)
	require.Equal(t, v.Grants, kinds[judge.Release])
	require.GreaterOrEqual(t, kinds[judge.Check], v.Grants)
	require.Positive(t, kinds[judge.Extend], "a hold of 100 ms is renewed")
}
