package boltlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt has a checksum over each of its two meta pages and none over its data.
// On a damaged file it panics, loops forever, or silently misses entries. If
// one meta page is damaged it uses the other, which shows the file before the
// last transaction. So checkLog reads the file first, by the rules of the
// format, and trusts no value in it (go.etcd.io/bbolt internal/common, format
// version 2).

const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	boltBranch = 0x01 // flags of pages
	boltLeaf   = 0x02
	boltMeta   = 0x04

	boltHeader  = 16 // id u64, flags u16, count u16, overflow u32
	boltElement = 16 // branch: pos u32, ksize u32, page u64; leaf: flags u32, pos u32, ksize u32, vsize u32
	boltBucket  = 16 // root u64, sequence u64; a root of 0 is followed by the page itself
	boltMetaLen = 64 // of a meta: magic, version, page size, flags u32; root, sequence, free list, high water, txid, checksum u64
	boltSumAt   = 56
)

// boltFile is a file of bbolt that is being read.
type boltFile struct {
	file     io.ReaderAt
	pageSize uint64
	pages    uint64          // high-water mark: pages from here on are unused
	root     uint64          // page of the root bucket
	txid     uint64          // of the latest transaction
	idle     bool            // the latest transaction changed nothing
	seen     map[uint64]bool // pages with a pointer to them from a page in use
}

// readBolt reads the meta pages of a file of the given size.
func readBolt(file io.ReaderAt, size int64) (*boltFile, error) {
	latest, earlier, err := readMetas(file)
	if err != nil {
		return nil, err
	}
	if latest.pages > uint64(size)/latest.pageSize {
		return nil, fmt.Errorf("it is cut short: it has %d bytes and needs %d", size, latest.pages*latest.pageSize)
	}
	return &boltFile{
		file: file, pageSize: latest.pageSize, pages: latest.pages, root: latest.root,
		txid: latest.txid, idle: latest.root == earlier.root, seen: map[uint64]bool{0: true, 1: true},
	}, nil
}

// readMetas reads the meta pages. Each transaction writes the page that the
// previous one did not. So both are always whole, and one transaction apart.
func readMetas(file io.ReaderAt) (latest, earlier metaPage, err error) {
	first, err := readMeta(file, 0, 0)
	if err != nil {
		return latest, earlier, err
	}
	second, err := readMeta(file, int64(first.pageSize), 1)
	if err != nil {
		return latest, earlier, err
	}
	latest, earlier = first, second
	if second.txid > first.txid {
		latest, earlier = second, first
	}
	if first.pageSize != second.pageSize || latest.txid != earlier.txid+1 {
		return latest, earlier, fmt.Errorf("its meta pages contradict each other (page sizes %d and %d, transactions %d and %d)", first.pageSize, second.pageSize, first.txid, second.txid)
	}
	return latest, earlier, nil
}

type metaPage struct{ pageSize, root, pages, txid uint64 }

func readMeta(file io.ReaderAt, at int64, id uint64) (metaPage, error) {
	raw := make([]byte, boltHeader+boltMetaLen)
	if _, err := file.ReadAt(raw, at); err != nil {
		return metaPage{}, fmt.Errorf("meta page %d: %w", id, err)
	}
	head, m := parseHeader(raw), raw[boltHeader:]
	word, long := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	sum := fnv.New64a()
	sum.Write(m[:boltSumAt])
	out := metaPage{pageSize: uint64(word(m[8:])), root: long(m[16:]), pages: long(m[40:]), txid: long(m[48:])}
	switch {
	case word(m) != boltMagic || head.flags != boltMeta || head.id != id:
		return out, fmt.Errorf("page %d is not a meta page", id)
	case word(m[4:]) != boltVersion:
		return out, fmt.Errorf("meta page %d has version %d; this release reads version %d", id, word(m[4:]), boltVersion)
	case long(m[boltSumAt:]) != sum.Sum64():
		return out, fmt.Errorf("meta page %d does not match its checksum", id)
	case out.pageSize < 1<<9 || out.pageSize > 1<<24:
		return out, fmt.Errorf("meta page %d names pages of %d bytes", id, out.pageSize)
	}
	return out, nil
}

type pageHeader struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
}

func parseHeader(raw []byte) pageHeader {
	return pageHeader{
		id: binary.NativeEndian.Uint64(raw), flags: binary.NativeEndian.Uint16(raw[8:]),
		count: int(binary.NativeEndian.Uint16(raw[10:])), overflow: uint64(binary.NativeEndian.Uint32(raw[12:])),
	}
}

// readPage reads a page in use, with its overflow pages. No other pointer may
// lead to any of them.
func (b *boltFile) readPage(id uint64) ([]byte, error) {
	if id >= b.pages {
		return nil, fmt.Errorf("page %d is beyond the last of %d pages", id, b.pages)
	}
	head := make([]byte, boltHeader)
	if _, err := b.file.ReadAt(head, int64(id*b.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	h := parseHeader(head)
	if h.id != id || h.overflow >= b.pages-id {
		return nil, fmt.Errorf("page %d has the number %d and %d overflow pages in a file of %d pages", id, h.id, h.overflow, b.pages)
	}
	for p := id; p <= id+h.overflow; p++ {
		if b.seen[p] {
			return nil, fmt.Errorf("page %d is in use twice", p)
		}
		b.seen[p] = true
	}
	raw := make([]byte, (h.overflow+1)*b.pageSize)
	if _, err := b.file.ReadAt(raw, int64(id*b.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return raw, nil
}

// visitor receives the keys of a bucket in order.
type visitor func(key, value []byte, bucket bool) error

// walk visits the tree under a page. Its keys must be at least from, and below
// to if to is not nil, because a search for a key follows the parent's keys.
func (b *boltFile) walk(id uint64, from, to []byte, visit visitor) error {
	raw, err := b.readPage(id)
	if err != nil {
		return err
	}
	if err := b.walkPage(raw, from, to, visit); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (b *boltFile) walkPage(raw, from, to []byte, visit visitor) error {
	h := parseHeader(raw)
	if h.flags != boltLeaf && (h.flags != boltBranch || h.count == 0) {
		return fmt.Errorf("flags %#x with %d elements", h.flags, h.count)
	}
	if boltHeader+h.count*boltElement > len(raw) {
		return fmt.Errorf("%d elements do not fit in", h.count)
	}
	all := make([]element, h.count)
	for i := range all {
		var err error
		if all[i], err = parseElement(raw, i, h.flags == boltLeaf); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if k := all[i].key; bytes.Compare(k, from) < 0 || to != nil && bytes.Compare(k, to) >= 0 || i > 0 && bytes.Compare(k, all[i-1].key) <= 0 {
			return fmt.Errorf("element %d: the key %x is out of order", i, k)
		}
	}
	for i, e := range all {
		var err error
		if h.flags == boltLeaf {
			err = visit(e.key, e.value, e.bucket)
		} else {
			end := to
			if i+1 < len(all) {
				end = all[i+1].key
			}
			err = b.walk(e.child, e.key, end, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// element is an entry of a page: a child in a branch, a key and value in a
// leaf.
type element struct {
	key, value []byte
	child      uint64
	bucket     bool
}

func parseElement(raw []byte, i int, leaf bool) (element, error) {
	at := uint64(boltHeader + i*boltElement)
	head := raw[at:]
	word := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(head[4*i:])) }
	var e element
	pos, ksize, vsize := word(0), word(1), uint64(0)
	if leaf {
		if word(0) > 1 {
			return e, fmt.Errorf("flags %#x", word(0))
		}
		e.bucket, pos, ksize, vsize = word(0) == 1, word(1), word(2), word(3)
	} else {
		e.child = binary.NativeEndian.Uint64(head[8:])
	}
	begin := at + pos
	if begin < boltHeader || begin+ksize+vsize > uint64(len(raw)) || ksize == 0 {
		return e, errors.New("its key or value reaches beyond the page")
	}
	e.key = raw[begin : begin+ksize]
	e.value = raw[begin+ksize : begin+ksize+vsize]
	return e, nil
}

// walkBucket visits the bucket that a value represents.
func (b *boltFile) walkBucket(value []byte, visit visitor) error {
	if len(value) < boltBucket {
		return fmt.Errorf("a bucket of %d bytes", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return b.walk(root, nil, nil, visit)
	}
	if len(value) < boltBucket+boltHeader {
		return fmt.Errorf("a bucket of %d bytes", len(value))
	}
	return b.walkPage(value[boltBucket:], nil, nil, visit)
}
