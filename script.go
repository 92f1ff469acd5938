package redlock

import (
	"crypto/sha1" // #nosec G505 -- EVALSHA names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
)

// script is a Lua script that nodes run, and the name by which EVALSHA calls it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) // #nosec G401
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

var (
	//go:embed scripts/acquire.lua
	acquireSource string
	//go:embed scripts/extend.lua
	extendSource string
	//go:embed scripts/release.lua
	releaseSource string
	//go:embed scripts/inspect.lua
	inspectSource string
	//go:embed scripts/break.lua
	breakSource string
	//go:embed scripts/seal.lua
	sealSource string
	//go:embed scripts/enlist.lua
	enlistSource string
	//go:embed scripts/passon.lua
	passOnSource string
	//go:embed scripts/acquire_fenced.lua
	fencedSource string
	//go:embed scripts/acquire_all.lua
	acquireAllSource string
	//go:embed scripts/extend_all.lua
	extendAllSource string
	//go:embed scripts/release_all.lua
	releaseAllSource string
	//go:embed scripts/raise_all.lua
	raiseAllSource string
	//go:embed scripts/next.lua
	nextSource string
	//go:embed scripts/acquire_fair.lua
	fairSource string
	//go:embed scripts/leave.lua
	leaveSource string
	//go:embed scripts/raise.lua
	raiseSource string
)

// The scripts are never written after they are made.
var (
	acquireScript = newScript(acquireSource)
	extendScript  = newScript(extendSource)
	releaseScript = newScript(nextSource + releaseSource)
	inspectScript = newScript(nextSource + inspectSource)
	breakScript   = newScript(breakSource)
	sealScript    = newScript(sealSource)
	enlistScript  = newScript(enlistSource)
	passOnScript  = newScript(passOnSource)
	fencedScript  = newScript(fencedSource)
	raiseScript   = newScript(raiseSource)

	acquireAllScript = newScript(acquireAllSource)
	extendAllScript  = newScript(extendAllSource)
	releaseAllScript = newScript(nextSource + releaseAllSource)
	raiseAllScript   = newScript(raiseAllSource)

	fairScript  = newScript(nextSource + fairSource)
	leaveScript = newScript(nextSource + leaveSource)
)

func allScripts() []script {
	return []script{
		acquireScript, extendScript, releaseScript, inspectScript, breakScript, sealScript, enlistScript, passOnScript,
		fencedScript, raiseScript, acquireAllScript, extendAllScript, releaseAllScript, raiseAllScript,
		fairScript, leaveScript,
	}
}
