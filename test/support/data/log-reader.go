// Reads the transparency log with the libraries of Go's checksum database, which know nothing of this project.
// log-reader <url of the log> <vkey of the log> <file with an older checkpoint or ""> <file with a tlog-proof or "">
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func fail(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func get(url string) []byte {
	response, err := http.Get(url)
	check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(err)
	if response.StatusCode != 200 {
		fail("%s: %s", url, response.Status)
	}
	return body
}

func openCheckpoint(text []byte, verifiers note.Verifiers, origin string) tlog.Tree {
	opened, err := note.Open(text, verifiers)
	check(err)
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != origin {
		fail("not a checkpoint of %s: %q", origin, opened.Text)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	check(err)
	hash, err := tlog.ParseHash(lines[2])
	check(err)
	return tlog.Tree{N: size, Hash: hash}
}

type tiles struct{ url string }

func (t tiles) Height() int { return 8 }
func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	found := make([][]byte, len(wanted))
	for i, tile := range wanted {
		// The checksum database puts the height of tiles into their path; C2SP does not.
		found[i] = get(t.url + strings.Replace(tile.Path(), "tile/8/", "tile/", 1))
	}
	return found, nil
}
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func main() {
	url, vkey, older, proof := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	verifier, err := note.NewVerifier(vkey)
	check(err)
	verifiers := note.VerifierList(verifier)
	tree := openCheckpoint(get(url+"checkpoint"), verifiers, verifier.Name())
	reader := tlog.TileHashReader(tree, tiles{url})

	var entries [][]byte
	for first := int64(0); first < tree.N; first += 256 {
		tile := tlog.Tile{H: 8, L: 0, N: first / 256, W: 256}
		if tree.N-first < 256 {
			tile.W = int(tree.N - first)
		}
		bundle := get(url + strings.Replace(tile.Path(), "tile/8/0/", "tile/entries/", 1))
		for len(bundle) > 0 {
			length := int(binary.BigEndian.Uint16(bundle))
			entries = append(entries, bundle[2:2+length])
			bundle = bundle[2+length:]
		}
	}
	if int64(len(entries)) != tree.N {
		fail("%d entries in a tree of %d", len(entries), tree.N)
	}
	for index, entry := range entries {
		leaf := tlog.RecordHash(entry)
		path, err := tlog.ProveRecord(tree.N, int64(index), reader)
		check(err)
		check(tlog.CheckRecord(path, tree.N, tree.Hash, int64(index), leaf))
	}
	fmt.Printf("entries %d\n", len(entries))

	if older != "" {
		text, err := os.ReadFile(older)
		check(err)
		before := openCheckpoint(text, verifiers, verifier.Name())
		path, err := tlog.ProveTree(tree.N, before.N, reader)
		check(err)
		check(tlog.CheckTree(path, tree.N, tree.Hash, before.N, before.Hash))
		fmt.Printf("consistent with %d\n", before.N)
	}
	if proof != "" {
		text, err := os.ReadFile(proof)
		check(err)
		checkProof(text, verifiers, verifier.Name())
	}
}

func checkProof(text []byte, verifiers note.Verifiers, origin string) {
	parts := bytes.SplitN(text, []byte("\n\n"), 2)
	lines := strings.Split(string(parts[0]), "\n")
	if lines[0] != "c2sp.org/tlog-proof@v1" {
		fail("not a proof: %q", lines[0])
	}
	tree := openCheckpoint(parts[1], verifiers, origin)
	extra, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	check(err)
	var head struct {
		ChainID  string `json:"chain_id"`
		Sequence int64  `json:"sequence"`
		Hash     string `json:"hash"`
	}
	check(json.Unmarshal(extra, &head))
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[2], "index "), 10, 64)
	check(err)
	var path tlog.RecordProof
	for _, line := range lines[3:] {
		hash, err := tlog.ParseHash(line)
		check(err)
		path = append(path, hash)
	}
	// docs/log.md, "Entries".
	entry := sha256.Sum256([]byte(fmt.Sprintf("agent-trust.log.v1\n%s\n%d\n%s\n", head.ChainID, head.Sequence, head.Hash)))
	check(tlog.CheckRecord(path, tree.N, tree.Hash, index, tlog.RecordHash(entry[:])))
	fmt.Printf("proven %s %d %s\n", head.ChainID, head.Sequence, head.Hash)
}
