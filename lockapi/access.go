package lockapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Routes of access control. A rule's path follows RouteRules directly; the path
// of the root's rule is RouteRules and a slash.
const (
	RouteRules      = "/v1/access/rules"
	RouteGroups     = "/v1/access/groups"
	RouteCellAccess = "/v1/access/cell"
	RouteTokens     = "/v1/access/tokens"
	RouteCheck      = "/v1/access/check"
	RouteEnable     = "/v1/access/enable"
	RouteDisable    = "/v1/access/disable"
	RouteWhoAmI     = "/v1/access/whoami"
)

// A caller acts as a principal: PrincipalAnonymous, or PrefixUser and a name.
// Lists may also contain groups and AllPrincipals.
const (
	PrincipalRoot      = "user:root" // has every right; authenticates by token only
	PrincipalAnonymous = "anonymous" // a caller without credentials
	AllPrincipals      = "*"         // in a list: every authenticated caller
	PrefixUser         = "user:"
	PrefixGroup        = "group:"
)

// Bounds of access.
const (
	MaxPrincipalName = 256  // bytes in the name of a user or a group
	MaxAccessEntries = 1000 // in a list or a group
	MaxTokenNote     = 1024 // bytes
	MinSecret        = 32   // bytes of a token's secret after SecretPrefix
	maxEnableSecret  = 256  // bytes; a real secret has 64
	// MaxTokenTTLMS is about 100 years.
	MaxTokenTTLMS = 100 * 366 * 86_400_000
)

// SecretPrefix starts the secret of every token.
const SecretPrefix = "stout_"

// Values of WhoAmI.How: how the caller authenticated.
const (
	HowToken       = "token"
	HowCertificate = "certificate"
	HowJWT         = "jwt"
	HowBreakGlass  = "break_glass"
	HowNone        = "none"
)

// Permissions named in a permission_denied error.
const (
	PermissionRead    = "read"
	PermissionLock    = "lock"
	PermissionWrite   = "write"
	PermissionAdmin   = "admin"
	PermissionObserve = "observe"
	PermissionOperate = "operate"
)

// AccessLists are the lists of a rule. A nil list is inherited from the rule
// above; an empty list denies everyone.
type AccessLists struct {
	Read  []string `json:"read,omitzero"`
	Lock  []string `json:"lock,omitzero"`
	Write []string `json:"write,omitzero"`
	Admin []string `json:"admin,omitzero"`
}

// Validate reports the first invalid entry, or nil.
func (l *AccessLists) Validate() error {
	return cmp.Or(validateEntries("read", l.Read), validateEntries("lock", l.Lock), validateEntries("write", l.Write), validateEntries("admin", l.Admin))
}

// AccessRule is a rule and its path.
type AccessRule struct {
	Path string `json:"path"`
	AccessLists
	// Principal wrote the rule. Only lists of rules include it. It is empty if
	// the writer was anonymous.
	Principal string `json:"principal,omitempty"`
}

// AccessRuleList is a page of rules, in bytewise order of their paths.
type AccessRuleList struct {
	Rules []AccessRule `json:"rules"`
	Next  string       `json:"next,omitempty"`
}

// AccessVerdict is a decision and the path of the rule that made it. Rule is
// nil if the operate right decided, or if no rule applied.
type AccessVerdict struct {
	Allowed bool    `json:"allowed"`
	Rule    *string `json:"rule"`
}

// AccessCheck reports what a principal may do at a path.
type AccessCheck struct {
	Principal string        `json:"principal"`
	Path      string        `json:"path"`
	Read      AccessVerdict `json:"read"`
	Lock      AccessVerdict `json:"lock"`
	Write     AccessVerdict `json:"write"`
	Admin     AccessVerdict `json:"admin"`
}

// GroupMembers lists the members of a group: users and other groups.
type GroupMembers struct {
	Members []string `json:"members"`
}

// Validate reports the first invalid member, or nil.
func (g *GroupMembers) Validate() error {
	if g.Members == nil {
		return Invalid("members", "members is missing; give the list of the group's members, or [] for an empty group")
	}
	return validateList("members", g.Members, IsMember, "user:NAME or group:NAME")
}

// Group is a group and its members.
type Group struct {
	Name string `json:"name"`
	GroupMembers
}

// RulesDeleted reports whether any rule was deleted.
type RulesDeleted struct {
	Deleted bool `json:"deleted"`
}

// GroupList is a page of groups, ordered by name. Next is the value of "after"
// for the next page, and empty on the last page.
type GroupList struct {
	Groups []Group `json:"groups"`
	Next   string  `json:"next,omitempty"`
}

// CellAccess lists the principals with rights in the cell as a whole.
type CellAccess struct {
	Observe []string `json:"observe"`
	Operate []string `json:"operate"`
}

// Validate reports the first invalid entry, or nil.
func (c *CellAccess) Validate() error {
	return cmp.Or(validateEntries("observe", c.Observe), validateEntries("operate", c.Operate))
}

// TokenRequest asks for a new token.
type TokenRequest struct {
	Principal string `json:"principal"`
	TTLMS     int64  `json:"ttl_ms"` // 0 for a token that does not expire
	Note      string `json:"note"`
	// TokenSHA256 is the SHA-256 of a secret that the caller chose, in
	// hexadecimal. If it is empty, the cell generates the secret.
	TokenSHA256 string `json:"token_sha256"`
}

// Validate reports the first field that is out of bounds, or nil.
func (r *TokenRequest) Validate() error {
	switch {
	case !IsUser(r.Principal):
		return Invalid("principal", "principal is %q; a token needs a user, user:NAME, with a name of 1 to %d bytes without control characters", Clip(r.Principal), MaxPrincipalName)
	case len(r.Note) > MaxTokenNote || !utf8.ValidString(r.Note):
		return Invalid("note", "the note has %d bytes; it must be valid UTF-8 of at most %d bytes", len(r.Note), MaxTokenNote)
	}
	return cmp.Or(within("ttl_ms", r.TTLMS, 0, MaxTokenTTLMS), validateSum(r.TokenSHA256))
}

// EnableRequest turns access control on.
type EnableRequest struct {
	TokenSHA256 string `json:"token_sha256"` // SHA-256 of the root's secret, as in TokenRequest
	// Secret is the content of EnableSecretFile in the data directory of the
	// replica that is called, or of the master. A caller on loopback does not
	// need it.
	Secret string `json:"secret,omitempty"`
}

// EnableSecretFile is the file in a replica's data directory that holds the
// secret of an EnableRequest.
const EnableSecretFile = "enable.secret"

// Validate reports the first field that is out of bounds, or nil.
func (r *EnableRequest) Validate() error {
	if len(r.Secret) > maxEnableSecret {
		return Invalid("secret", "the secret has %d bytes, which is too long; send the content of the file %s", len(r.Secret), EnableSecretFile)
	}
	return validateSum(r.TokenSHA256)
}

// Token describes a token. Secret is present only in the reply that creates it.
type Token struct {
	ID        string     `json:"id"`
	Secret    string     `json:"token,omitempty"`
	Principal string     `json:"principal"`
	Note      string     `json:"note"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// TokenList is a page of tokens, ordered by id.
type TokenList struct {
	Tokens []Token `json:"tokens"`
	Next   string  `json:"next,omitempty"`
}

// WhoAmI reports the caller's principal and, on request, its rights in the cell
// as a whole. While access control is off, every caller has all rights.
type WhoAmI struct {
	Principal string `json:"principal"`
	How       string `json:"how"`
	Observe   bool   `json:"observe,omitempty"`
	Operate   bool   `json:"operate,omitempty"`
}

// IsUser reports whether principal is a user: "user:" and a name.
func IsUser(principal string) bool {
	name, ok := strings.CutPrefix(principal, PrefixUser)
	return ok && isName(name)
}

// IsMember reports whether entry may be a member of a group.
func IsMember(entry string) bool {
	name, ok := strings.CutPrefix(entry, PrefixGroup)
	return ok && ValidateGroup(name) == nil || IsUser(entry)
}

// ValidateGroup reports an invalid name of a group, or nil. The name is one
// segment of a path.
func ValidateGroup(name string) error {
	if !isName(name) || strings.Contains(name, "/") || name == "." || name == ".." {
		return Invalid("name", "the group's name %q is invalid; it must be 1 to %d bytes of UTF-8 without %q and control characters", Clip(name), MaxPrincipalName, "/")
	}
	return nil
}

// ValidatePrincipal reports an invalid principal in a check of access, or nil.
func ValidatePrincipal(principal string) error {
	if principal != PrincipalAnonymous && !IsUser(principal) {
		return Invalid("principal", "principal is %q; it must be user:NAME or %s", Clip(principal), PrincipalAnonymous)
	}
	return nil
}

// ValidateRulePath reports an invalid path of a rule, or nil.
func ValidateRulePath(path string) error {
	if path == "/" {
		return nil
	}
	return ValidatePath(path)
}

// UnescapeRulePath decodes the path of a rule from a URL.
func UnescapeRulePath(escaped string) (string, error) {
	if escaped == "/" {
		return "/", nil
	}
	return UnescapePath(escaped)
}

func isName(name string) bool {
	return name != "" && len(name) <= MaxPrincipalName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

func validateEntries(field string, list []string) error {
	return validateList(field, list, func(entry string) bool {
		return entry == AllPrincipals || entry == PrincipalAnonymous || IsMember(entry)
	}, "user:NAME, group:NAME, * or anonymous")
}

func validateList(field string, list []string, fine func(string) bool, what string) error {
	if len(list) > MaxAccessEntries {
		return Invalid(field, "%s has %d entries; at most %d are allowed: put them into groups", field, len(list), MaxAccessEntries)
	}
	if i := slices.IndexFunc(list, func(entry string) bool { return !fine(entry) }); i >= 0 {
		return Invalid(fmt.Sprintf("%s[%d]", field, i), "%s has the entry %q; an entry must be %s, with a name of 1 to %d bytes without control characters", field, Clip(list[i]), what, MaxPrincipalName)
	}
	return nil
}

func validateSum(sum string) error {
	if sum == "" {
		return nil
	}
	if len(sum) != 64 || strings.Trim(sum, "0123456789abcdefABCDEF") != "" {
		return Invalid("token_sha256", "token_sha256 is invalid; it must be the SHA-256 of the secret in 64 hexadecimal digits")
	}
	return nil
}
