package judge

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

const good = `{"c":"a","k":"acquire","n":"x","t":"A","s":1,"e":2,"o":"ok","u":9}`

func TestWriteRead(t *testing.T) {
	h := runToy(1, 3, 2, toyTTL*5)
	h[0].Client = strings.Repeat("\x01", maxText) // the longest there is when escaped
	h[0].Name, h[0].Token = h[0].Client, h[0].Client
	var b bytes.Buffer
	require.NoError(t, h.Write(&b))
	back, err := Read(&b)
	require.NoError(t, err)
	require.Equal(t, h, back)
}

func TestLineIsStable(t *testing.T) {
	o := Op{"c1", Acquire, "x", "tok", 7, 1, 2, OK, 1_000_000_000}
	var b bytes.Buffer
	require.NoError(t, History{o}.Write(&b))
	//nolint:testifylint // the text is what is promised, not only its meaning
	require.Equal(t, `{"c":"c1","k":"acquire","n":"x","t":"tok","f":7,"s":1,"e":2,"o":"ok","u":1000000000}`+"\n", b.String())
	require.Equal(t, `c1: acquire "x" token tok fence 7 from 1ns to 2ns: ok, until 1s`, o.String())
}

func TestReadNamesTheBadLine(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"not JSON":       {"{", "not a whole"},
		"null":           {"null", "kind"},
		"two values":     {good + good, "more than one"},
		"unknown field":  {`{"client":"a"}`, "client"},
		"float":          {strings.Replace(good, `"s":1`, `"s":1.5`, 1), "1.5"},
		"negative fence": {strings.Replace(good, `"s":1`, `"f":-1,"s":1`, 1), "-1"},
		"kind":           {strings.Replace(good, "acquire", "take", 1), `kind "take"`},
		"outcome":        {strings.Replace(good, `"ok"`, `"fine"`, 1), `outcome "fine"`},
		"no client":      {strings.Replace(good, `"a"`, `""`, 1), "without a client"},
		"no name":        {strings.Replace(good, `"x"`, `""`, 1), "without a name"},
		"no token":       {strings.Replace(good, `"A"`, `""`, 1), "without a token"},
		"ends first":     {strings.Replace(good, `"s":1`, `"s":3`, 1), "from 3 to 2"},
		"before time":    {strings.Replace(good, `"s":1`, `"s":-1`, 1), "from -1 to 2"},
		"until before":   {strings.Replace(good, `"u":9`, `"u":-9`, 1), "until -9"},
		"long text":      {strings.Replace(good, `"x"`, `"`+strings.Repeat("x", maxText+1)+`"`, 1), "4097 bytes"},
		"long line":      {good + strings.Repeat(" ", maxLine), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Read(strings.NewReader(good + "\n# a comment\n\n" + c.line + "\n" + good + "\n"))
			require.ErrorContains(t, err, "line 4: ")
			require.ErrorContains(t, err, c.want)
			require.Len(t, h, 1, "what came before the bad line")
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF, "a bad line is not a torn one")
		})
	}
}

func TestReadTornAndFailing(t *testing.T) {
	h, err := Read(strings.NewReader(good + "\n" + good[:20]))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "line 2")
	require.Len(t, h, 1)

	h, err = Read(strings.NewReader(good)) // whole, but for the line feed
	require.NoError(t, err)
	require.Len(t, h, 1)

	broken := errors.New("broken disk")
	_, err = Read(io.MultiReader(strings.NewReader(good+"\n"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
}

func TestWriteRefuses(t *testing.T) {
	for _, o := range []Op{{}, {Client: "a\xff", Kind: Acquire, Name: "x", Outcome: Failed}} {
		require.Error(t, History{o}.Write(io.Discard))
	}
	full := errors.New("full disk")
	o := Op{Client: "a", Kind: Acquire, Name: "x", Outcome: Failed}
	require.ErrorIs(t, History{o}.Write(writer(func([]byte) (int, error) { return 0, full })), full)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestMerge(t *testing.T) {
	a := History{{Client: "a", Start: 5, End: 6}, {Client: "a", Start: 1, End: 9}}
	b := History{{Client: "b", Start: 1, End: 2}}
	require.Equal(t, History{b[0], a[1], a[0]}, Merge(a, b))
	require.Empty(t, Merge())
}

// FuzzRead: nothing makes Read panic, what it read is written and read again as
// it was, and every rule can be asked about it.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(good + "\n" + good[:30]))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, _ := Read(bytes.NewReader(text))
		var b bytes.Buffer
		require.NoError(t, h.Write(&b))
		back, err := Read(bytes.NewReader(b.Bytes()))
		require.NoError(t, err)
		require.Equal(t, h, back)
		if len(h) < 12 { // the price of porcupine is another matter
			_ = Judge(h, Options{Quiet: []Window{{0, 1000}}}).String()
		}
	})
}
