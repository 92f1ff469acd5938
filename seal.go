package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The seal is what a node must show for its vote to count (design section 5):
// which deployment it belongs to, and under which master_replid that was
// written. The replid changes on every restart and on every promotion, so a
// seal under another one marks a node that may have forgotten leases.
//
// As text: v1|mode|N|max TTL ms|db|at ms|replid. At is the sealer's wall time,
// 0 from Init. For a bucket of a Cluster the database, which is always 0 there,
// is written as c64/votes: into how many buckets and votes names are divided.
const (
	sealFormat     = "v1"
	modeStrict     = "strict"
	modeBestEffort = "best-effort"
	// modeVoid counts for nobody: the first pass of Reseal.
	modeVoid = "void"
)

// sealSpec is the part of a seal that every client of a deployment shares.
type sealSpec struct {
	mode   string
	n      int
	maxTTL time.Duration
	db     int
	votes  int // of the Cluster, 0 for a server of its own
}

func (s sealSpec) String() string {
	if s.votes > 0 {
		return fmt.Sprintf("%s, N=%d, max TTL %v, %d votes of one Cluster", s.mode, s.n, s.maxTTL, s.votes)
	}
	return fmt.Sprintf("%s, N=%d, max TTL %v, db %d", s.mode, s.n, s.maxTTL, s.db)
}

// text is the seal as it stands on a node.
func (s sealSpec) text(at time.Duration, replid string) string {
	place := strconv.Itoa(s.db)
	if s.votes > 0 {
		place = sealBuckets + strconv.Itoa(s.votes)
	}
	return fmt.Sprintf("%s|%s|%d|%d|%s|%d|%s",
		sealFormat, s.mode, s.n, s.maxTTL.Milliseconds(), place, at.Milliseconds(), replid)
}

// seal is a seal that was read.
type seal struct {
	sealSpec
	at     time.Duration // wall time since the epoch, 0 from Init
	replid string
}

// parseSeal reads a seal; false for anything that this version does not write.
// The text comes from a server and is not trusted.
func parseSeal(text string) (seal, bool) {
	f := strings.Split(text, "|")
	if len(text) > 256 || len(f) != 7 || f[0] != sealFormat {
		return seal{}, false
	}
	votes := 0
	if text, ok := strings.CutPrefix(f[4], sealBuckets); ok {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return seal{}, false
		}
		votes, f[4] = int(n), "0"
	}
	var num [4]int64
	for i := range num {
		n, err := strconv.ParseInt(f[2+i], 10, 64)
		if err != nil || n < 0 || n > time.Duration(1<<62).Milliseconds() {
			return seal{}, false
		}
		num[i] = n
	}
	return seal{
		sealSpec: sealSpec{
			mode: f[1], n: int(num[0]), maxTTL: time.Duration(num[1]) * time.Millisecond, db: int(num[2]), votes: votes,
		},
		at: time.Duration(num[3]) * time.Millisecond, replid: f[6],
	}, true
}

// sealKind is what a seal means to us.
type sealKind uint8

const (
	sealMissing sealKind = iota
	sealStale            // ours, from before a restart or promotion
	sealOurs
	sealForeign // another deployment's: never overwritten, whatever its replid
)

// kind tells what the text on a node means to a client of spec, when the node
// shows the given replid.
func (s sealSpec) kind(text, replid string) (sealKind, seal) {
	if text == "" {
		return sealMissing, seal{}
	}
	got, ok := parseSeal(text)
	switch {
	case !ok || got.sealSpec != s:
		return sealForeign, got
	case got.replid != replid:
		return sealStale, got
	}
	return sealOurs, got
}

// describe is the seal for an error message.
func (s seal) describe(text string) string {
	switch s.mode {
	case modeVoid:
		return "a seal that counts for nobody (a Reseal was begun and not finished)"
	case "":
		return fmt.Sprintf("a seal that this version does not know (%.80q)", text)
	}
	return s.String()
}
