package state

// Office is the term of office that the log opened last.
type Office struct {
	Open   bool   `cbor:"1,keyasint,omitempty"`
	Term   uint64 `cbor:"2,keyasint,omitempty"` // raft term in which it was opened
	Master string `cbor:"3,keyasint,omitempty"` // id of its replica
	// LeaseMS is the longest lease of any batch accepted in this office. A
	// successor must wait it out.
	LeaseMS int64 `cbor:"4,keyasint,omitempty"`
}

// OpenOffice begins a new term of office. It is alone in its batch, which is
// accepted only in the raft term for which it was made.
type OpenOffice struct {
	Master string `cbor:"1,keyasint,omitempty"` // id of the replica
	Term   uint64 `cbor:"2,keyasint,omitempty"` // raft term
}

// OfficeOpened reports that the cell has a new master.
type OfficeOpened struct {
	Revision uint64
	Epoch    uint64
	Master   string
	At       int64 // Unix nanoseconds; only shown to people
}

// opens returns the operation of a batch that is to open an office.
func (b *Batch) opens() (*OpenOffice, bool) {
	if len(b.Commands) != 1 {
		return nil, false
	}
	op, ok := b.Commands[0].Operation.(*OpenOffice)
	return op, ok
}

// openOffice begins the next term of office. It refuses an entry with another
// raft term than the one it was made for: its maker is no longer master.
func (e *editor) openOffice(op *OpenOffice, term uint64, leaseMS, now int64) bool {
	if op.Term != term || op.Master == "" {
		return false
	}
	e.Epoch++
	e.Now = max(e.Now, now)
	e.Office = Office{Open: true, Term: term, Master: op.Master, LeaseMS: leaseMS}
	e.record(OfficeOpened{Revision: e.nextRevision(), Epoch: e.Epoch, Master: op.Master, At: e.Now})
	return true
}

func (op *OpenOffice) wellFormed() bool              { return false } // malformed among other commands
func (op *OpenOffice) would(*State) (Result, bool)   { return nil, false }
func (op *OpenOffice) do(_ *editor, r Result) Result { return r }
func (op *OpenOffice) size() int                     { return 16 + len(op.Master) }

// CloseOffice ends the term of office: the master steps down. Commands after it
// in its batch are refused.
type CloseOffice struct{}

// OfficeClosed reports that the master has stepped down.
type OfficeClosed struct{}

func (op *CloseOffice) wellFormed() bool            { return true }
func (op *CloseOffice) would(*State) (Result, bool) { return Done, true }
func (op *CloseOffice) size() int                   { return 1 }

func (op *CloseOffice) do(e *editor, r Result) Result {
	e.Office.Open = false
	e.record(OfficeClosed{})
	return r
}
