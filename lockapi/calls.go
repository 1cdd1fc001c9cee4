package lockapi

// Call is one call of the API as a value: a pointer to one of the types whose names
// say what the call does. Tags say where each field travels:
//
//	`path:"lock"`   in the path; the word says how it is read there
//	`query:"after"` in the query, by that name; `need` says what it is, where it
//	                has to be given
//
// The body, as JSON, is what a call embeds. A call that has a Validate has passed it
// when it comes to package master.
type Call any

// The calls about who may do what.
type (
	// PutRule puts a rule at a path, in place of the one there. The answer is an
	// AccessRule.
	PutRule struct {
		Path string `path:"rule"`
		AccessLists
	}
	// GetRule reads the rule at a path: an AccessRule, or not_found.
	GetRule struct {
		Path string `path:"rule"`
	}
	// DeleteRule deletes the rule at a path, if there is one. It has no answer.
	DeleteRule struct {
		Path string `path:"rule"`
	}
	// DeleteRulesBelow deletes the rules below a directory, and not the one at it.
	// The answer is a RulesDeleted.
	DeleteRulesBelow struct {
		Prefix string `query:"prefix" need:"the directory below which rules are to be deleted"`
	}
	// ListRules reads a page of the rules that the caller administers: an
	// AccessRuleList.
	ListRules struct {
		Prefix string `query:"prefix"`
		After  string `query:"after"`
		Limit  int    `query:"limit"`
	}
	// CheckAccess asks what a principal may do at a path, or the caller where
	// Principal is nil. The answer is an AccessCheck.
	CheckAccess struct {
		Path      string  `query:"path" need:"the path that is asked about"`
		Principal *string `query:"principal"`
	}
	// PutGroup makes a group, or gives it other members. The answer is a Group.
	PutGroup struct {
		Name string `path:"group"`
		GroupMembers
	}
	// GetGroup reads a Group, or not_found.
	GetGroup struct {
		Name string `path:"group"`
	}
	// DeleteGroup deletes a group, if there is one. It has no answer.
	DeleteGroup struct {
		Name string `path:"group"`
	}
	// ListGroups reads a page of groups: a GroupList.
	ListGroups struct {
		After string `query:"after"`
	}
	// PutCellAccess sets who observes and who operates the cell. The answer is a
	// CellAccess.
	PutCellAccess struct{ CellAccess }
	// GetCellAccess reads who observes and who operates the cell: a CellAccess.
	GetCellAccess struct{}
	// CreateToken makes a token. The answer is a Token with its secret.
	CreateToken struct{ TokenRequest }
	// ListTokens reads a page of tokens without their secrets: a TokenList.
	ListTokens struct {
		After string `query:"after"`
		Limit int    `query:"limit"`
	}
	// RevokeToken ends a token, if it is there. It has no answer.
	RevokeToken struct {
		ID string `path:"id"`
	}
	// EnableAccess has callers judged from now on. The answer is a Token of the root.
	EnableAccess struct{ EnableRequest }
	// DisableAccess lets every caller do everything. It has no answer.
	DisableAccess struct{ NoFields }
	// GetWhoAmI asks who the caller is taken for, and with Rights which rights in the
	// cell as a whole it has: a WhoAmI.
	GetWhoAmI struct {
		Rights bool `query:"rights"`
	}
)

// NoFields is the body of a call that has none.
type NoFields struct{}

// Validate reports what is wrong with the prefix, or nil.
func (c *DeleteRulesBelow) Validate() error {
	if c.Prefix == "/" {
		return nil
	}
	return ValidatePrefix(c.Prefix)
}

// Validate reports what is wrong with the prefix, or nil.
func (c *ListRules) Validate() error { return validateListed(c.Prefix) }

// Validate reports what is wrong with the path or the principal, or nil.
func (c *CheckAccess) Validate() error {
	if err := ValidateRulePath(c.Path); err != nil || c.Principal == nil {
		return err
	}
	return ValidatePrincipal(*c.Principal)
}

// validateListed refuses the prefix of a list that no path can have, which would name
// nothing in silence.
func validateListed(prefix string) error {
	if prefix != "" && prefix[0] != '/' {
		return Invalid("prefix", "prefix %q begins no path: paths begin with /", Clip(prefix))
	}
	return nil
}
