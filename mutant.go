package redlock

// mutant names a guard that a test turns off, to see that it matters: the test
// that stands for the guard has to fail then. No option of the package sets
// one; only tests of the package itself can.
type mutant uint32

const (
	// mutantNoInfo lets the closing check do with MGET alone, so that neither
	// the role nor the replid is seen.
	mutantNoInfo mutant = 1 << iota
	// mutantNoSeal counts every vote, whatever the seal and the quarantine say.
	mutantNoSeal
)

func (m mutant) has(one mutant) bool { return m&one != 0 }

// withMutant turns guards off.
func withMutant(m mutant) Option { return lockerOption(func(s *settings) { s.mutant = m }) }
