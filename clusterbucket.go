package redlock

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
)

// This file is the fixed map from names to slots. It is part of what is stored
// on servers: another one would be another seal (sealBuckets).

// clusterBuckets is into how many parts names are divided. Each has a seal.
const clusterBuckets = 64

// sealBuckets stands in the seal of a bucket, before the number of votes.
const sealBuckets = "c64/"

const slotCount = 16384

// bucketTags are the hash tags of the buckets. That of bucket k lies in the very
// slot 256k, so that with v votes it lies in the same v-th part of the slots as
// the bucket in the list of buckets, for every v.
var bucketTags = sync.OnceValue(func() (tags [clusterBuckets]string) {
	for k, n := range bucketNumbers {
		tags[k] = fmt.Sprintf("{b%d-%d}", k, n)
	}
	return tags
})

// bucketNumbers were found by trying; a test computes their slots.
var bucketNumbers = [clusterBuckets]int{
	2580, 15518, 7858, 12425, 10229, 43510, 12466, 13741,
	6192, 21461, 45995, 100516, 43342, 15309, 19778, 4083,
	2412, 2147, 17878, 5695, 10193, 8729, 565, 420,
	14148, 42103, 13075, 5694, 17029, 9449, 15658, 43613,
	2745, 2210, 1048, 16861, 11191, 23275, 28373, 15900,
	11104, 10223, 5818, 40072, 10260, 11147, 2927, 8297,
	14385, 23713, 13286, 21162, 15851, 1608, 960, 825,
	22849, 3488, 43050, 1428, 3956, 18715, 43886, 29199,
}

// bucketSlot is the slot of a bucket.
func bucketSlot(k int) int { return k * slotCount / clusterBuckets }

// bucketsOf are the buckets of a vote: those with k·votes/64 == vote.
func bucketsOf(vote, votes int) (from, to int) {
	ceil := func(i int) int { return (i*clusterBuckets + votes - 1) / votes }
	return ceil(vote), ceil(vote + 1)
}

// bucketFor is where a key stands on a vote: on all votes equally far into their
// part, so that the places of a name are apart also where there are more masters
// than votes.
func bucketFor(key string, vote, votes int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	from, to := bucketsOf(vote, votes)
	return from + int(h.Sum64()%clusterBuckets)*(to-from)/clusterBuckets // #nosec G115 -- below 64
}

// bucketName names a bucket for errors and logs.
func bucketName(vote string, k int) string { return vote + " bucket " + strconv.Itoa(k) }
