package state

// Change is one thing that Apply did. An entry's changes are listed in the
// order in which they happened. They cover everything that the entry did to the
// state, except the cell's time. The office wakes calls and starts timers by
// them. Watchers receive the changes that have a revision: the number of a
// change in the cell, 1 for the first, rising by one.
//
// Each type is declared in the file of its subject.
type Change interface{ change() }

func (OfficeOpened) change()   {}
func (OfficeClosed) change()   {}
func (SessionOpened) change()  {}
func (SessionEnded) change()   {}
func (Granted) change()        {}
func (Enqueued) change()       {}
func (Kept) change()           {}
func (Withdrawn) change()      {}
func (Released) change()       {}
func (DelayBegan) change()     {}
func (DelayEnded) change()     {}
func (Marked) change()         {}
func (SumReported) change()    {}
func (MembersNoted) change()   {}
func (LevelRaised) change()    {}
func (FileChanged) change()    {}
func (FileDeleted) change()    {}
func (Answered) change()       {}
func (AccessChanged) change()  {}
func (SessionAdopted) change() {}
func (Expelled) change()       {}
func (HoldLost) change()       {}
func (QuotaChanged) change()   {}
