package main

import (
	"bytes"
	"testing"
	"time"
)

// TestCapacity runs the measurement with tiny counts: it counts something, and
// prints it.
func TestCapacity(t *testing.T) {
	needRedis(t)
	c := capacity{nodes: 3, load: 150 * time.Millisecond, leases: 200, ttl: 120 * time.Millisecond}
	got, err := c.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.pairs == 0 || got.busy <= 0 || got.lone <= 0 || got.renewal <= 0 || got.memory <= 0 {
		t.Errorf("something was not measured: %+v", got)
	}
	var out bytes.Buffer
	got.print(&out)
	if !bytes.Contains(out.Bytes(), []byte("renewal")) {
		t.Errorf("printed %q", out.String())
	}
}
