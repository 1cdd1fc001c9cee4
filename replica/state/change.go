package state

// Change is one thing that Apply did. The changes of an entry are listed in the
// order in which they came about, and there is nothing else that it did to the
// state but for the cell's time. The office wakes calls and starts timers by
// them, and watchers are told of those that have a revision: the number of a
// change in the cell, 1 for the first and one more for each that follows.
//
// Each type stands in the file of what it is about.
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
