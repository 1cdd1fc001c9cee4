package boltlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// fuzzPage is the size of the fuzzed pages: the smallest that is read.
const fuzzPage = 512

const leastFile = 8 << 10

// somePages returns the pages of a file with a bucket of some entries and an
// empty one, starting behind the meta pages, and the page of the root.
func somePages(f *testing.F, entries int) (root uint16, pages []byte) {
	f.Helper()
	name := filepath.Join(f.TempDir(), FileName)
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{PageSize: fuzzPage, NoFreelistSync: true})
	if err != nil {
		f.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		log, err := tx.CreateBucketIfNotExists([]byte(entriesBucket))
		for i := uint64(1); i <= uint64(entries) && err == nil; i++ {
			err = log.Put(binary.BigEndian.AppendUint64(nil, i), bytes.Repeat([]byte{byte(i)}, int(i%40)*20))
		}
		if err == nil {
			_, err = tx.CreateBucketIfNotExists([]byte(valuesBucket))
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	// After a first transaction with an odd number, the meta page is the second
	// one.
	m := raw[boltHeader:]
	if other := raw[fuzzPage+boltHeader:]; binary.NativeEndian.Uint64(other[48:]) > binary.NativeEndian.Uint64(m[48:]) {
		m = other
	}
	return uint16(binary.NativeEndian.Uint64(m[16:])), raw[2*fuzzPage : binary.NativeEndian.Uint64(m[40:])*fuzzPage]
}

// fileOf returns a file with these pages, behind two correct meta pages.
func fileOf(root uint16, pages []byte) []byte {
	pages = pages[:len(pages)/fuzzPage*fuzzPage]
	file := make([]byte, 2*fuzzPage, 2*fuzzPage+len(pages))
	for id := range uint64(2) {
		page := file[id*fuzzPage:]
		binary.NativeEndian.PutUint64(page, id)
		binary.NativeEndian.PutUint16(page[8:], boltMeta)
		m := page[boltHeader:]
		binary.NativeEndian.PutUint32(m, boltMagic)
		binary.NativeEndian.PutUint32(m[4:], boltVersion)
		binary.NativeEndian.PutUint32(m[8:], fuzzPage)
		binary.NativeEndian.PutUint64(m[16:], uint64(root))
		binary.NativeEndian.PutUint64(m[32:], 1<<64-1) // no list of free pages
		binary.NativeEndian.PutUint64(m[40:], uint64(2+len(pages)/fuzzPage))
		binary.NativeEndian.PutUint64(m[48:], 10+id)
		sum := fnv.New64a()
		sum.Write(m[:boltSumAt])
		binary.NativeEndian.PutUint64(m[boltSumAt:], sum.Sum64())
	}
	file = append(file, pages...)
	return append(file, make([]byte, max(0, leastFile-len(file)))...) // bbolt reads no shorter one
}

// FuzzLogPages: no pages make the walk over a log's file panic, run for ever or
// read a page twice. If it finds no fault, bbolt, which checks less, reads the
// same keys and values.
func FuzzLogPages(f *testing.F) {
	for _, entries := range []int{0, 3, 60} {
		root, pages := somePages(f, entries)
		f.Add(root, pages)
	}
	f.Add(uint16(2), []byte{})
	f.Add(uint16(0), make([]byte, 2*fuzzPage))
	name := filepath.Join(f.TempDir(), FileName)
	f.Fuzz(func(t *testing.T, root uint16, pages []byte) {
		// An endless walk would go undetected, because go test ends it when its
		// time is up.
		defer time.AfterFunc(10*time.Second, func() { panic("the walk does not end") }).Stop()
		file := fileOf(root, pages)
		if len(file) > 1<<16 {
			return
		}
		walked, err := walkAll(t, file)
		if err != nil {
			return
		}
		must(t, os.WriteFile(name, file, 0o600))
		var read []string
		err = recovering(func() (err error) {
			read, err = readAll(name)
			return err
		})
		if err != nil || !slices.Equal(read, walked) {
			t.Fatalf("the walk found\n%q\nbbolt\n%q, %v", walked, read, err)
		}
	})
}

// counting counts the bytes that are read.
type counting struct {
	*bytes.Reader
	read int
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.Reader.ReadAt(b, at)
	c.read += n
	return n, err
}

// walkAll returns each key, with the values of keys that are not buckets, in
// the buckets of a file.
func walkAll(t *testing.T, file []byte) (all []string, err error) {
	t.Helper()
	reader := &counting{Reader: bytes.NewReader(file)}
	bolt, err := readBolt(reader, int64(len(file)))
	must(t, err)
	err = bolt.walk(bolt.root, nil, nil, func(key, value []byte, bucket bool) error {
		if !bucket {
			return errors.New("a value outside a bucket, which a log has not")
		}
		all = append(all, line("", key, nil, true))
		return bolt.walkBucket(value, func(in, value []byte, bucket bool) error {
			all = append(all, line(string(key), in, value, bucket))
			return nil
		})
	})
	if most := len(file) + len(file)/fuzzPage*boltHeader + 1024; reader.read > most {
		t.Fatalf("%d bytes of a file of %d were read", reader.read, len(file))
	}
	return all, err
}

func line(in string, key, value []byte, bucket bool) string {
	if bucket {
		value = nil
	}
	return fmt.Sprintf("%x/%x=%x %t", in, key, value, bucket)
}

// readAll is walkAll through bbolt.
func readAll(name string) (all []string, err error) {
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return all, db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			all = append(all, line("", name, nil, true))
			return b.ForEach(func(key, value []byte) error {
				all = append(all, line(string(name), key, value, value == nil))
				return nil
			})
		})
	})
}
