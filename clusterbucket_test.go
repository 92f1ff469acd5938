package redlock

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
)

// slotOf is CRC16 (XMODEM) modulo the number of slots, as the Cluster
// specification says.
func slotOf(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotCount
}

func TestSlotOfKnownKeys(t *testing.T) {
	require.Equal(t, 12739, slotOf("123456789")) // the Cluster specification's own example, 0x31C3
	require.Equal(t, 12182, slotOf("foo"))
}

// The tags are stored on servers, so they never change.
func TestBucketTagsLieInTheirSlots(t *testing.T) {
	tags := bucketTags()
	for k, tag := range tags {
		inside, ok := strings.CutPrefix(tag, "{")
		require.True(t, ok)
		inside, ok = strings.CutSuffix(inside, "}")
		require.True(t, ok)
		require.Equal(t, 256*k, slotOf(inside), tag)
		require.Equal(t, 256*k, bucketSlot(k))
	}
	require.Equal(t, "{b0-2580}", tags[0])
	require.Equal(t, "{b63-29199}", tags[63])
}

func TestVotesShareOutTheBuckets(t *testing.T) {
	for votes := 1; votes <= clusterBuckets; votes++ {
		next := 0
		for i := range votes {
			from, to := bucketsOf(i, votes)
			require.Equal(t, next, from)
			require.Greater(t, to, from)
			next = to
			for k := from; k < to; k++ {
				require.Equal(t, i, k*votes/clusterBuckets, "bucket %d of %d votes", k, votes)
			}
		}
		require.Equal(t, clusterBuckets, next)
	}
}

// Where the slots are spread evenly over as many masters as there are votes or
// more, the votes of a name lie on different ones.
func TestVotesOfANameLieOnDistinctMasters(t *testing.T) {
	for _, votes := range []int{2, 3, 5, 7} {
		for masters := votes; masters <= 12; masters++ {
			for n := range 500 {
				seen := make(map[int]bool)
				for i := range votes {
					m := bucketSlot(bucketFor(fmt.Sprint("lock:", n), i, votes)) * masters / slotCount
					require.False(t, seen[m], "%d votes, %d masters, name %d", votes, masters, n)
					seen[m] = true
				}
			}
		}
	}
}

// Every field of a Call that is a key gets the tag.
func TestTagsReachEveryKey(t *testing.T) {
	var c seam.Call
	v := reflect.ValueOf(&c).Elem()
	keys := 0
	for i := range v.NumField() {
		if f := v.Type().Field(i); strings.HasSuffix(f.Name, "Key") {
			v.Field(i).SetString("k")
			keys++
		}
	}
	tagCall(&c, "{b}")
	require.GreaterOrEqual(t, keys, 5)
	for i := range v.NumField() {
		if f := v.Type().Field(i); strings.HasSuffix(f.Name, "Key") {
			require.Equal(t, "{b}k", v.Field(i).String(), f.Name)
		}
	}
	require.Equal(t, "{b}", c.Tag)

	c = seam.Call{Op: seam.Acquire, Key: "k"}
	tagCall(&c, "{b}")
	require.Empty(t, c.LabelKey, "no label stays no label")
	c = seam.Call{Op: seam.Holds}
	tagCall(&c, "{b}")
	require.Equal(t, "{b}", c.Key, "an empty prefix is one too")
}
