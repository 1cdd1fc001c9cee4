package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// members are faults of the list of members and of its changes.
func members() []Mutant {
	return []Mutant{
		{"member-is-a-name", "A member is a name and a directory", "an emptied directory is another server",
			"a replica that lost its disk votes for one that lacks what it had stored",
			overlay.Edit{File: "replica/admission/identity.go",
				Old: "func ServerID(name, directory string) string { return name + \"/\" + directory }",
				New: "func ServerID(name, directory string) string { return name }"}},
		{"opening-unchecked", "A member is a name and a directory", "a replica that is not the wanted member refuses",
			"a new directory at an old address answers for the old one, before it has the old one's entries",
			overlay.Edit{File: "replica/admission/identity.go",
				Old: "\tcase wanted != w.ServerID():\n",
				New: "\tcase false:\n"}},
		{"emptied-directory-goes-on", "A member is a name and a directory", "a new directory waits until the cell lists it",
			"an emptied directory continues as the former one while one good disk is cut off: acknowledged changes are lost",
			overlay.Edit{File: "replica/admission/decide.go",
				Old: "\treturn s.stranger(latest, \"it is new, or was emptied\"), true",
				New: "\tfor _, m := range latest.Members {\n\t\tif name, directory := Split(m); name == s.ID {\n\t\t\tid := s.Identity\n\t\t\tid.Directory, id.Founding, id.CellID = directory, latest.Founding, latest.CellID\n\t\t\treturn Decision{Step: Go, Identity: id}, true\n\t\t}\n\t}\n\treturn s.stranger(latest, \"it is new, or was emptied\"), true"}},
		{"founding-not-unanimous", "A member is a name and a directory", "founding needs every replica of the list",
			"two of three found without the third; one of them is lost and founds again with the third",
			overlay.Edit{File: "replica/admission/decide.go",
				Old: "\tif missing != nil {",
				New: "\ts.Names = slices.DeleteFunc(slices.Clone(s.Names), func(n string) bool { return n != s.ID && answers[n].Info.Directory == \"\" })\n\tif len(missing) >= len(s.Names) {"}},
		{"founder-keeps-its-directory", "A member is a name and a directory", "a directory prepares one founding in its life",
			"two foundings with a directory in common both succeed",
			overlay.Edit{File: "replica/admission/decide.go",
				Old: "next.Founding, next.Directory = nil, s.NewDirectory()",
				New: "next.Founding = nil"}},
		{"replacement-unnoticed", "A member is a name and a directory", "a directory that another has replaced waits to be admitted again",
			"a replica comes back with the disk that it had before, and waits for a master for ever",
			overlay.Edit{File: "replica/admission/decide.go",
				Old: "if !ok || latest.ConfigIndex == 0 || seen < max(self.ConfigIndex, self.Admitted) || latest.lists(self.ServerID()) {",
				New: "if ok || !ok || seen > 0 {"}},
		{"admission-forgotten", "A member is a name and a directory", "a replica that has not reached a directory's admission does not know that it was replaced",
			"a new voter has no entries yet, the master loses its disk, and the third is restarted",
			overlay.Edit{File: "replica/membership.go", // the admission is on the disk, by its index and in the roster
				Old: "\tanswers[r.opts.ID] = admission.Answer{Info: r.roster.now.Load().Info(r.opts.ID, r.CellID())}\n\td, ok := admission.FindReplaced(admission.Self{Identity: r.stores.Identity,",
				New: "\twho := r.stores.Identity\n\twho.Admitted = 0\n\td, ok := admission.FindReplaced(admission.Self{Identity: who,"}},
		{"change-not-finished", "A member is a name and a directory", "the next master finishes a change of the members",
			"the master that added a new directory is lost before it made it a voter",
			overlay.Edit{File: "master/master.go",
				Old: "\t\tgo m.keepMembers(during, o)\n",
				New: "\t\tif o.epoch == 1 {\n\t\t\tgo m.keepMembers(during, o)\n\t\t}\n"}},
	}
}
