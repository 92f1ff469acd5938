package redlock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
)

// nestedStory acquires a name and a nested lease of it, lets f release handles,
// and says what is wrong if another client then gets the name.
func nestedStory(t *testing.T, m mutant, what string, f func(outer, inner *Lease)) string {
	return story(t, m, func(t *testing.T, _ []*memnode.Node, a, b *Locker) string {
		outer, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		inner, err := a.Acquire(outer.Context(), "x", WithReentry())
		require.NoError(t, err)
		f(outer, inner)
		if _, err := b.TryAcquire(t.Context(), "x"); err == nil {
			return what
		}
		return ""
	})
}

func storyInnerFrees(t *testing.T, m mutant) string {
	return nestedStory(t, m, "a nested Release freed what the outer holder relies on", func(_, inner *Lease) {
		require.NoError(t, inner.Release(t.Context()))
	})
}

func storyReleasedTwice(t *testing.T, m mutant) string {
	return nestedStory(t, m, "one handle was released twice, and that freed the other's", func(outer, _ *Lease) {
		require.NoError(t, outer.Release(t.Context()))
		_ = outer.Release(t.Context())
	})
}

// storyNestedUnfenced: a library function that needs a fence is called under a lease
// without one.
func storyNestedUnfenced(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, _ []*memnode.Node, a, _ *Locker) string {
		outer, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		inner, err := a.Acquire(outer.Context(), "x", WithReentry(), WithFencing())
		if err == nil {
			require.Zero(t, inner.Fence())
			return "a call that asked for a fence got a lease without one"
		}
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "give WithFencing to the outer call")
		require.NoError(t, outer.Release(t.Context()))
		fenced, err := a.Acquire(t.Context(), "x", WithFencing())
		require.NoError(t, err)
		inner, err = a.Acquire(fenced.Context(), "x", WithReentry(), WithFencing())
		require.NoError(t, err)
		require.Equal(t, fenced.Fence(), inner.Fence())
		return ""
	})
}
