package lockapi

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Routes about who may do what. A rule's path follows RouteRules directly; that of
// the root is RouteRules and a slash.
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

// Who calls is a principal: a known one, which is PrefixUser and a name, or
// PrincipalAnonymous. Lists may have groups and AllPrincipals, too.
const (
	PrincipalRoot      = "user:root" // may always do everything; comes by a token only
	PrincipalAnonymous = "anonymous" // whoever has not proved who he is
	AllPrincipals      = "*"         // in a list: everybody who is known
	PrefixUser         = "user:"
	PrefixGroup        = "group:"
)

// Bounds of access.
const (
	MaxPrincipalName = 256  // bytes of the name of a user or a group
	MaxAccessEntries = 1000 // in a list, and in a group
	MaxTokenNote     = 1024 // bytes
	MinSecret        = 32   // bytes of a token's secret behind SecretPrefix
	maxEnableSecret  = 256  // bytes; it has 64
	// MaxTokenTTLMS is about a hundred years.
	MaxTokenTTLMS = 100 * 366 * 86_400_000
)

// SecretPrefix is what the secrets of a cell's tokens begin with.
const SecretPrefix = "stout_"

// How a caller has proved who he is.
const (
	HowToken       = "token"
	HowCertificate = "certificate"
	HowJWT         = "jwt"
	HowBreakGlass  = "break_glass"
	HowNone        = "none"
)

// Permissions, as a permission_denied names them.
const (
	PermissionRead    = "read"
	PermissionLock    = "lock"
	PermissionWrite   = "write"
	PermissionAdmin   = "admin"
	PermissionObserve = "observe"
	PermissionOperate = "operate"
)

// AccessLists are the lists of a rule: nil is inherited, an empty one is nobody.
type AccessLists struct {
	Read  []string `json:"read,omitzero"`
	Lock  []string `json:"lock,omitzero"`
	Write []string `json:"write,omitzero"`
	Admin []string `json:"admin,omitzero"`
}

// Validate reports the first entry that can't be, or nil.
func (l *AccessLists) Validate() error {
	for _, one := range []struct {
		field string
		list  []string
	}{{"read", l.Read}, {"lock", l.Lock}, {"write", l.Write}, {"admin", l.Admin}} {
		if err := validateEntries(one.field, one.list); err != nil {
			return err
		}
	}
	return nil
}

// AccessRule is a rule and where it stands.
type AccessRule struct {
	Path string `json:"path"`
	AccessLists
	// Principal is who put it. Only the list of rules tells; it is empty where nobody
	// was known.
	Principal string `json:"principal,omitempty"`
}

// AccessRuleList is a page of rules, in bytewise order of their paths.
type AccessRuleList struct {
	Rules []AccessRule `json:"rules"`
	Next  string       `json:"next,omitempty"`
}

// AccessVerdict is a decision, and the path of the rule that made it; nil where
// operate or nothing decides.
type AccessVerdict struct {
	Allowed bool    `json:"allowed"`
	Rule    *string `json:"rule"`
}

// AccessCheck is what a principal may do at a path.
type AccessCheck struct {
	Principal string        `json:"principal"`
	Path      string        `json:"path"`
	Read      AccessVerdict `json:"read"`
	Lock      AccessVerdict `json:"lock"`
	Write     AccessVerdict `json:"write"`
	Admin     AccessVerdict `json:"admin"`
}

// GroupMembers are the members of a group: known principals and other groups.
type GroupMembers struct {
	Members []string `json:"members"`
}

// Validate reports the first member that can't be, or nil.
func (g *GroupMembers) Validate() error {
	if g.Members == nil {
		return Invalid("members", "members is missing; it is the list of the group's members, [] for none")
	}
	return validateList("members", g.Members, IsMember, "user:NAME or group:NAME")
}

// Group is a group.
type Group struct {
	Name string `json:"name"`
	GroupMembers
}

// RulesDeleted says whether there were rules to delete.
type RulesDeleted struct {
	Deleted bool `json:"deleted"`
}

// GroupList is a page of groups in the order of their names. With Next as "after" the
// next page begins; it is empty on the last one.
type GroupList struct {
	Groups []Group `json:"groups"`
	Next   string  `json:"next,omitempty"`
}

// CellAccess says who observes and who operates the cell as a whole.
type CellAccess struct {
	Observe []string `json:"observe"`
	Operate []string `json:"operate"`
}

// Validate reports the first entry that can't be, or nil.
func (c *CellAccess) Validate() error {
	if err := validateEntries("observe", c.Observe); err != nil {
		return err
	}
	return validateEntries("operate", c.Operate)
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Principal string `json:"principal"`
	TTLMS     int64  `json:"ttl_ms"` // 0 for one that does not end by itself
	Note      string `json:"note"`
	// TokenSHA256 is the SHA-256, in hexadecimal digits, of a secret that the
	// caller keeps; empty to be given one.
	TokenSHA256 string `json:"token_sha256"`
}

// Validate reports the first field that is out of bounds, or nil.
func (r *TokenRequest) Validate() error {
	switch {
	case !IsUser(r.Principal):
		return Invalid("principal", "principal is %q; a token is of a known one, user:NAME, whose name has 1 to %d bytes and no control characters", Clip(r.Principal), MaxPrincipalName)
	case len(r.Note) > MaxTokenNote || !utf8.ValidString(r.Note):
		return Invalid("note", "the note has %d bytes; it is at most %d of UTF-8", len(r.Note), MaxTokenNote)
	}
	if err := within("ttl_ms", r.TTLMS, 0, MaxTokenTTLMS); err != nil {
		return err
	}
	return validateSum(r.TokenSHA256)
}

// EnableRequest asks for access to be judged from now on.
type EnableRequest struct {
	TokenSHA256 string `json:"token_sha256"` // as in a TokenRequest, of the root's secret
	// Secret is what the file EnableSecretFile has, in the data directory of the
	// replica that is called, or of the master. A caller on loopback needs none.
	Secret string `json:"secret,omitempty"`
}

// EnableSecretFile is the file in a replica's data directory that has the secret of
// an EnableRequest.
const EnableSecretFile = "enable.secret"

// Validate reports the first field that is out of bounds, or nil.
func (r *EnableRequest) Validate() error {
	if len(r.Secret) > maxEnableSecret {
		return Invalid("secret", "the secret has %d bytes; that of a file %s has less", len(r.Secret), EnableSecretFile)
	}
	return validateSum(r.TokenSHA256)
}

// Token is a token as it is shown. Secret is there only once, when it is made.
type Token struct {
	ID        string     `json:"id"`
	Secret    string     `json:"token,omitempty"`
	Principal string     `json:"principal"`
	Note      string     `json:"note"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// TokenList is a page of tokens, in the order of their ids.
type TokenList struct {
	Tokens []Token `json:"tokens"`
	Next   string  `json:"next,omitempty"`
}

// WhoAmI tells who the caller is taken for and, where that is asked for, which rights
// in the cell as a whole it has: all while access is off.
type WhoAmI struct {
	Principal string `json:"principal"`
	How       string `json:"how"`
	Observe   bool   `json:"observe,omitempty"`
	Operate   bool   `json:"operate,omitempty"`
}

// IsUser reports whether it is a known principal: user: and a name.
func IsUser(principal string) bool {
	name, ok := strings.CutPrefix(principal, PrefixUser)
	return ok && isName(name)
}

// IsMember reports whether a group can have it.
func IsMember(entry string) bool {
	name, ok := strings.CutPrefix(entry, PrefixGroup)
	return ok && ValidateGroup(name) == nil || IsUser(entry)
}

// ValidateGroup reports what is wrong with the name of a group, or nil. It is a
// segment of a path.
func ValidateGroup(name string) error {
	if !isName(name) || strings.Contains(name, "/") || name == "." || name == ".." {
		return Invalid("name", "the name %q of a group can't be; it has 1 to %d bytes of UTF-8, without %q and control characters", Clip(name), MaxPrincipalName, "/")
	}
	return nil
}

// ValidatePrincipal reports what is wrong with a principal that is asked about, or
// nil.
func ValidatePrincipal(principal string) error {
	if principal != PrincipalAnonymous && !IsUser(principal) {
		return Invalid("principal", "principal is %q; it is user:NAME or %s", Clip(principal), PrincipalAnonymous)
	}
	return nil
}

// ValidateRulePath reports what is wrong with where a rule is to stand, or nil.
func ValidateRulePath(path string) error {
	if path == "/" {
		return nil
	}
	return ValidatePath(path)
}

// UnescapeRulePath reads the path of a rule as it stands in a URL.
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
		return Invalid(field, "%s has %d entries; at most %d are allowed: make groups of them", field, len(list), MaxAccessEntries)
	}
	if i := slices.IndexFunc(list, func(entry string) bool { return !fine(entry) }); i >= 0 {
		return Invalid(fmt.Sprintf("%s[%d]", field, i), "%s has %q; an entry is %s, and a name has 1 to %d bytes and no control characters", field, Clip(list[i]), what, MaxPrincipalName)
	}
	return nil
}

func validateSum(sum string) error {
	if sum == "" {
		return nil
	}
	if len(sum) != 64 || strings.Trim(sum, "0123456789abcdefABCDEF") != "" {
		return Invalid("token_sha256", "token_sha256 is not 64 hexadecimal digits, the SHA-256 of a secret")
	}
	return nil
}
