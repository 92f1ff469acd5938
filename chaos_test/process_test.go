package chaos_test

import (
	"testing"
	"time"
)

// Two of five nodes are killed while 32 goroutines in four processes lock eight
// names. The lock is to go on as if nothing had happened: no two holders, nobody
// who fails before the end of the run, no standstill, and nothing left behind.
func TestKillTwoOfFiveUnderLoad(t *testing.T) {
	const (
		ttl    = time.Second
		length = 20 * time.Second
	)
	servers, addrs := startServers(t, 5)
	initNodes(t, addrs, settings(ttl)...)
	wait := startClients(t, 4, length, clientOrder{Addrs: addrs, Names: 8, Goroutines: 8, TTL: ttl})

	time.Sleep(length / 4)
	servers[1].Kill()
	servers[3].Kill()
	t.Logf("killed %s and %s", addrs[1], addrs[3])

	files := wait()
	for _, i := range []int{0, 2, 4} {
		mustBeClean(t, addrs[i])
	}
	judged(t, files, "-waiting", "-node-timeout", nodeTimeout(ttl).String(), "-slack", "1s", "-max-gap", "2s", "-min-grants", "500")
}
