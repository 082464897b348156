// Checks proofs and archives with Go's own transparency-log code, and writes test vectors by it.
//
//	go run . vectors > vectors.json
//	go run . check BUNDLE KEY ARCHIVE
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	log.SetFlags(0)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "vectors":
		writeVectors()
	case len(os.Args) == 5 && os.Args[1] == "check":
		size, root := checkBundle(os.Args[2], os.Args[3])
		checkArchive(os.Args[4], size, root)
		fmt.Println("ok", size)
	default:
		log.Fatal("usage: vectors | check BUNDLE KEY ARCHIVE")
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

type bundle struct {
	Epoch        int64    `json:"epoch"`
	Payload      []byte   `json:"payload"`
	PreviousHash string   `json:"previous_hash"`
	Inclusion    []string `json:"inclusion"`
	Checkpoint   string   `json:"checkpoint"`
	Earlier      *struct {
		Checkpoint  string   `json:"checkpoint"`
		Consistency []string `json:"consistency"`
	} `json:"earlier"`
}

func checkBundle(path, key string) (int64, tlog.Hash) {
	var found bundle
	if err := json.Unmarshal(must(os.ReadFile(path)), &found); err != nil {
		log.Fatal(err)
	}
	verifiers := note.VerifierList(must(note.NewVerifier(key)))
	size, root := opened(found.Checkpoint, verifiers)
	leaf := sha256.Sum256(append(must(hex.DecodeString(found.PreviousHash)), found.Payload...))
	record := tlog.RecordHash(leaf[:])
	if err := tlog.CheckRecord(hashes(found.Inclusion), size, root, found.Epoch-1, record); err != nil {
		log.Fatal("inclusion: ", err)
	}
	if found.Earlier != nil {
		oldSize, oldRoot := opened(found.Earlier.Checkpoint, verifiers)
		proof := hashes(found.Earlier.Consistency)
		if err := tlog.CheckTree(proof, size, root, oldSize, oldRoot); err != nil {
			log.Fatal("consistency: ", err)
		}
	}
	return size, root
}

// opened verifies a signed checkpoint and returns its tree.
func opened(text string, verifiers note.Verifiers) (int64, tlog.Hash) {
	signed := must(note.Open([]byte(text), verifiers))
	lines := strings.Split(signed.Text, "\n")
	size := must(strconv.ParseInt(lines[1], 10, 64))
	var root tlog.Hash
	copy(root[:], must(base64.StdEncoding.DecodeString(lines[2])))
	return size, root
}

func hashes(texts []string) []tlog.Hash {
	found := make([]tlog.Hash, len(texts))
	for i, text := range texts {
		copy(found[i][:], must(hex.DecodeString(text)))
	}
	return found
}

// checkArchive reads the tree from its tiles; the reader verifies each tile against the root.
func checkArchive(folder string, size int64, root tlog.Hash) {
	reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles{folder})
	if must(tlog.TreeHash(size, reader)) != root {
		log.Fatal("the tiles give another root")
	}
	for index := int64(0); index < size; index += size/7 + 1 {
		proof := must(tlog.ProveRecord(size, index, reader))
		if err := tlog.CheckRecord(proof, size, root, index, leafOf(folder, index, size)); err != nil {
			log.Fatal("tiles: ", err)
		}
	}
}

// leafOf finds a leaf in its entry bundle.
func leafOf(folder string, index, size int64) tlog.Hash {
	tile := tlog.Tile{H: 8, L: -1, N: index / 256, W: int(min(256, size-index/256*256))}
	data := must(os.ReadFile(filepath.Join(folder, pathOf(tile))))
	for i := int64(0); i < index%256; i++ {
		data = data[2+int(data[0])<<8+int(data[1]):]
	}
	return tlog.RecordHash(data[2 : 2+int(data[0])<<8+int(data[1])])
}

type tiles struct{ folder string }

func (t tiles) Height() int { return 8 }

func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	found := make([][]byte, len(wanted))
	for i, tile := range wanted {
		data, err := os.ReadFile(filepath.Join(t.folder, pathOf(tile)))
		if err != nil {
			return nil, err
		}
		found[i] = data
	}
	return found, nil
}

// pathOf is where C2SP puts a tile: without the height that Go's own paths have, and with
// "entries" where they say "data".
func pathOf(tile tlog.Tile) string {
	path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
	return strings.Replace(path, "tile/data/", "tile/entries/", 1)
}

type vector struct {
	Size        int64               `json:"size"`
	Root        string              `json:"root"`
	Inclusion   map[string][]string `json:"inclusion"`
	Consistency map[string][]string `json:"consistency"`
}

// writeVectors describes trees whose leaf number i is the SHA-256 of i in decimal.
func writeVectors() {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			found[i] = stored[index]
		}
		return found, nil
	})
	wanted := map[int64]bool{1: true, 2: true, 3: true, 5: true, 8: true, 13: true, 255: true,
		256: true, 257: true, 600: true, 70000: true}
	var trees []vector
	for n := int64(0); n < 70000; n++ {
		leaf := sha256.Sum256([]byte(strconv.FormatInt(n, 10)))
		stored = append(stored, must(tlog.StoredHashes(n, leaf[:], reader))...)
		if wanted[n+1] {
			trees = append(trees, describe(n+1, reader))
		}
	}
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)), "example.com/log")
	if err != nil {
		log.Fatal(err)
	}
	text := "example.com/log\n" + strconv.FormatInt(trees[len(trees)-1].Size, 10) + "\n" +
		base64.StdEncoding.EncodeToString(must(hex.DecodeString(trees[len(trees)-1].Root))) + "\n"
	signed := must(note.Sign(&note.Note{Text: text}, must(note.NewSigner(skey))))
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	if err := out.Encode(map[string]any{
		"trees": trees, "private_key": skey, "public_key": vkey, "checkpoint": string(signed),
	}); err != nil {
		log.Fatal(err)
	}
}

func describe(size int64, reader tlog.HashReader) vector {
	found := vector{
		Size:        size,
		Root:        texts(must(tlog.TreeHash(size, reader)))[0],
		Inclusion:   map[string][]string{},
		Consistency: map[string][]string{},
	}
	for _, index := range []int64{0, 1, size / 3, size / 2, size - 2, size - 1} {
		if index >= 0 && index < size {
			proof := must(tlog.ProveRecord(size, index, reader))
			found.Inclusion[strconv.FormatInt(index, 10)] = texts(proof...)
		}
	}
	for _, old := range []int64{1, 2, size / 3, size / 2, size - 1, size} {
		if old >= 1 && old <= size {
			proof := must(tlog.ProveTree(size, old, reader))
			found.Consistency[strconv.FormatInt(old, 10)] = texts(proof...)
		}
	}
	return found
}

func texts(hashes ...tlog.Hash) []string {
	found := make([]string, len(hashes))
	for i, hash := range hashes {
		found[i] = hex.EncodeToString(hash[:])
	}
	return found
}
