package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// every calls f with every sequence of length n over the votes.
func every(n int, votes []vote, f func([]vote)) {
	seq := make([]vote, n)
	var fill func(int)
	fill = func(i int) {
		if i == n {
			f(seq)
			return
		}
		for _, v := range votes {
			seq[i] = v
			fill(i + 1)
		}
	}
	fill(0)
}

// truth is what a round should say when all votes are in, written down from the
// promise (P1, P2) and not from the code.
func truth(seq []vote) verdict {
	n, g, h, c := len(seq), 0, 0, 0
	for _, v := range seq {
		switch v {
		case voteForeign:
			return badConfig
		case voteGranted:
			g++
		case voteHeld:
			h++
		case voteConfig:
			c++
		}
	}
	q := n/2 + 1
	switch {
	case g >= q:
		return granted
	case g+h >= q:
		return held
	case n-c < q:
		return badConfig
	}
	return noQuorum
}

// Every outcome in every order for N ≤ 7: the verdict, once given, stands, and
// is given no later than it could be.
func TestRoundAllOutcomesAndOrders(t *testing.T) {
	votes := []vote{voteGranted, voteHeld, voteFailed, voteConfig}
	for n := 1; n <= 7; n++ {
		t.Run(fmt.Sprint("N=", n), func(t *testing.T) {
			every(n, votes, func(seq []vote) {
				r := newRound(n, nil)
				decided := undecided
				for i, v := range seq {
					got := r.cast(i, v)
					if decided != undecided && got != decided {
						t.Fatalf("%v: verdict changed from %v to %v at %d", seq, decided, got, i)
					}
					decided = got
					if want := certain(seq[:i+1], n); want != undecided && got == undecided {
						t.Fatalf("%v: undecided after %d votes, although only %v is possible", seq, i+1, want)
					}
				}
				want := truth(seq)
				// Failures are told from configuration as soon as a majority is
				// out of reach, so which of the two it is may depend on the order.
				if decided != want && (want != badConfig || decided != noQuorum) && (want != noQuorum || decided != badConfig) {
					t.Fatalf("%v: %v, want %v", seq, decided, want)
				}
				g, h, f, p := r.tally()
				if g+h+f+p != n || p != 0 {
					t.Fatalf("%v: the tally %d %d %d %d does not add up to %d", seq, g, h, f, p, n)
				}
			})
		})
	}
}

// certain is the verdict that every completion of a prefix leads to, for the
// two that the caller waits for: granted, and not granted.
func certain(prefix []vote, n int) verdict {
	g, h, bad := 0, 0, 0
	for _, v := range prefix {
		switch v {
		case voteGranted:
			g++
		case voteHeld:
			h++
		default:
			bad++
		}
	}
	q := n/2 + 1
	open := n - len(prefix)
	switch {
	case g >= q:
		return granted
	case g+open < q && g+h >= q:
		return held
	case bad > n-q:
		return noQuorum
	}
	return undecided
}

func TestRoundForeignSealEndsIt(t *testing.T) {
	r := newRound(3, nil)
	require.Equal(t, undecided, r.cast(0, voteGranted))
	require.Equal(t, badConfig, r.cast(1, voteForeign))
	require.Equal(t, badConfig, r.cast(2, voteGranted), "no vote counts any more")
}

func TestRoundFirstVoteOfANodeCounts(t *testing.T) {
	r := newRound(3, nil)
	r.cast(0, voteGranted)
	require.Equal(t, undecided, r.cast(0, voteGranted), "one node is one vote")
	require.Equal(t, undecided, r.cast(1, votePending))
	require.Equal(t, granted, r.cast(1, voteGranted))
}

func TestRoundExpire(t *testing.T) {
	for _, c := range []struct {
		name  string
		votes []vote
		want  verdict
	}{
		{"nobody answers", []vote{0, 0, 0}, noQuorum},
		{"one grants", []vote{voteGranted, 0, 0}, noQuorum},
		{"a majority votes, split", []vote{voteGranted, voteHeld, 0}, held},
		{"a majority is misconfigured", []vote{voteConfig, voteConfig, 0}, badConfig},
		{"decided before", []vote{voteGranted, voteGranted, 0}, granted},
		{"silent and misconfigured", []vote{voteConfig, 0, 0}, noQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRound(len(c.votes), nil)
			for i, v := range c.votes {
				r.cast(i, v)
			}
			require.Equal(t, c.want, r.expire())
		})
	}
}

func TestRoundRetryAfter(t *testing.T) {
	s := time.Second
	r := newRound(5, nil)
	r.cast(0, voteGranted)
	require.Equal(t, 3*s, r.retryAfter([]time.Duration{5 * s, 3 * s, s, 4 * s}), "two more are needed, the second is free after 3 s")
	require.Zero(t, r.retryAfter([]time.Duration{s}), "one is known, two are needed")
	r.cast(1, voteGranted)
	r.cast(2, voteGranted)
	require.Zero(t, r.retryAfter([]time.Duration{s}), "none is needed")
}

func TestVerdictNames(t *testing.T) {
	for v, want := range map[verdict]string{undecided: "undecided", granted: "granted", held: "held", noQuorum: "no quorum", badConfig: "configuration"} {
		require.Equal(t, want, v.String())
	}
}

func TestTokensAreRandomUUIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token := newToken()
		u, err := uuid.Parse(token)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), u.Version())
		require.Equal(t, uuid.RFC4122, u.Variant())
		require.False(t, seen[token])
		seen[token] = true
	}
}
