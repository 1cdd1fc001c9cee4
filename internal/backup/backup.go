// Package backup defines the format of a cell's backup, as a file or as the body
// of an API response.
//
//	"stout-backup" and the format's number, one byte
//	the length of the header, four bytes, big-endian
//	the header, a lockapi.BackupHeader in JSON
//	a snapshot of the state, as package state writes it
//	the SHA-256 of all the above, 32 bytes
//
// The hash comes last, so a backup can be written as a stream. A truncated backup
// is never taken for a complete one, because its last 32 bytes are not the hash
// of the bytes before them.
package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/stoutlock/stout/lockapi"
)

// magic begins every backup; a byte with the format's number follows.
const magic = "stout-backup"

// maxHeader bounds the header, and so the memory that a few damaged bytes can
// request.
const maxHeader = 64 << 10

// ErrDamaged reports that a backup is not as it was written: bytes have
// changed, or some are missing at the end.
var ErrDamaged = errors.New("the backup is damaged or cut off: its bytes do not match the SHA-256 at its end")

// Write writes a backup. If it fails, the bytes written are not a backup.
func Write(w io.Writer, h lockapi.BackupHeader, snapshot func(io.Writer) error) error {
	h.Format = lockapi.BackupFormat
	head, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	lead := append([]byte(magic), byte(h.Format))
	lead = binary.BigEndian.AppendUint32(lead, uint32(len(head)))
	if _, err := both.Write(append(lead, head...)); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := snapshot(both); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// Reader reads the snapshot in a backup. The caller must not use any of it
// before Read has returned io.EOF, which it does only if the hash is right.
type Reader struct {
	// Header is the backup's header. It is valid only once everything was read.
	Header lockapi.BackupHeader

	in  *bufio.Reader
	sum hash.Hash
	err error // the result of Read, once it has failed or ended
}

// NewReader reads the header of a backup.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(from, 64<<10), sum: sha256.New()}
	lead := make([]byte, len(magic)+1+4)
	if err := r.full(lead); err != nil {
		return nil, err
	}
	format := lead[len(magic)]
	switch {
	case !bytes.HasPrefix(lead, []byte(magic)):
		return nil, errors.New("this is not a Stout backup")
	case format != lockapi.BackupFormat:
		return nil, fmt.Errorf("the backup has format %d; this release reads format %d: use the release that wrote it, or a later one", format, lockapi.BackupFormat)
	}
	size := binary.BigEndian.Uint32(lead[len(magic)+1:])
	if size > maxHeader {
		return nil, ErrDamaged
	}
	head := make([]byte, size)
	if err := r.full(head); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(head, &r.Header); err != nil || r.Header.Format != int(format) {
		return nil, ErrDamaged
	}
	return r, nil
}

// full fills b from the beginning of the backup.
func (r *Reader) full(b []byte) error {
	_, err := io.ReadFull(r.in, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrDamaged
	}
	r.sum.Write(b)
	return err
}

// Read reads the snapshot. At its end the error is io.EOF if the whole backup
// is as it was written. Otherwise it is ErrDamaged or the source's error.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	// The bytes after the next one may be the hash.
	ahead, err := r.in.Peek(sha256.Size + 1)
	if err != nil {
		r.err = err
		if err == io.EOF && !bytes.Equal(ahead, r.sum.Sum(nil)) {
			r.err = ErrDamaged
		}
		return 0, r.err
	}
	n, err := r.in.Read(p[:min(len(p), r.in.Buffered()-sha256.Size)])
	r.sum.Write(p[:n])
	return n, err
}

// Copy copies a backup. It fails if the backup is not complete and undamaged;
// the copy is then unusable.
func Copy(w io.Writer, from io.Reader) (lockapi.BackupHeader, error) {
	r, err := NewReader(io.TeeReader(from, w))
	if err != nil {
		return lockapi.BackupHeader{}, err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return lockapi.BackupHeader{}, err
	}
	return r.Header, nil
}

// Verify reads a backup to its end. It fails if the backup is not complete and
// undamaged.
func Verify(from io.Reader) (lockapi.BackupHeader, error) { return Copy(io.Discard, from) }
