// Elements as values, and their rendering into the document. A string always becomes
// text; no code here turns a string into markup.

// HIDDEN matches characters that are shown as escapes, as stout does at a terminal:
// control and direction characters, characters without width, and unusual blanks,
// except for the narrow blank in the page's own figures.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}\p{Default_Ignorable_Code_Point}\u00a0\u1680\u2000-\u200a\u205f\u2800\u3000]/gu;

// seen escapes hidden characters in text, since others choose names. With lines it
// keeps line ends and tabs.
export const seen = (text, lines) => text.replace(HIDDEN, (c, at) =>
  (lines && (c === '\n' || c === '\t' || (c === '\r' && text[at + 1] === '\n')) ? c : named(c.codePointAt(0).toString(16))));

const named = hex => (hex.length < 3 ? `\\x${hex.padStart(2, '0')}` : hex.length < 5 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`);

const there = child => child !== null && child !== undefined && child !== false;

// h describes an element. Props: on… are listeners, vars are custom properties of CSS,
// key identifies a child that may move, and all others are attributes.
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: children.flat(Infinity).filter(there) };
}

// render makes the children of a node match the description. It keeps existing
// elements, and with them focus, scroll position and selection.
export function render(parent, ...described) {
  const children = described.flat(Infinity).filter(there);
  const wanted = new Set(children.map(child => child.props?.key));
  const keyed = new Map();
  for (const node of parent.childNodes) {
    if (node.key !== undefined) keyed.set(node.key, node);
  }
  let at = parent.firstChild;
  for (const child of children) {
    while (at && at.key !== undefined && !wanted.has(at.key)) at = removed(at);
    const node = find(child, at, keyed, parent.localName === 'pre');
    if (node !== at) parent.insertBefore(node, at);
    if (node.nodeType === Node.ELEMENT_NODE) update(node, child);
    at = node.nextSibling;
  }
  while (at) at = removed(at);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// find returns the node for a child: the node at its place or with its key, or a new one.
function find(child, at, keyed, lines) {
  if (child.tag === undefined) {
    const text = seen(String(child), lines);
    if (at?.nodeType !== Node.TEXT_NODE) return document.createTextNode(text);
    if (at.data !== text) at.data = text;
    return at;
  }
  const key = child.props.key;
  const old = key === undefined ? at : keyed.get(key);
  if (old?.localName === child.tag && old.key === key) return old;
  const node = document.createElement(child.tag);
  node.key = key;
  return node;
}

function update(node, { props, children }) {
  const before = node.props ?? {};
  for (const name of Object.keys(before)) {
    if (!there(props[name])) assign(node, name, null, before[name]);
  }
  for (const [name, value] of Object.entries(props)) {
    if (value !== before[name] || name === 'value') assign(node, name, value, before[name]);
  }
  node.props = props;
  render(node, children);
}

function assign(node, name, value, before) {
  if (name === 'key') return;
  if (name.startsWith('on')) {
    node[name] = value ?? null;
  } else if (name === 'vars') {
    for (const [key, v] of Object.entries(value ?? {})) {
      if (v !== before?.[key]) node.style.setProperty(key, v);
    }
  } else if (name === 'value') {
    if (node.value !== value) node.value = value ?? '';
  } else if (!there(value)) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? '' : name === 'title' || name === 'aria-label' ? seen(String(value)) : value);
  }
}

export const byId = id => document.getElementById(id);
