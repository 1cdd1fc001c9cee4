// Package ui holds the tests that view the page of a real cell with a real
// browser: headless Chromium, driven over its own protocol. It has no other
// code.
//
// Without Chromium the tests are skipped, unless STOUT_TEST_BROWSER names the
// program; .ci/chromium installs one. STOUT_TEST_SHOTS names a directory for
// screenshots of the tested views; .ci/run keeps them in bin/pages.
//
// testdata/axe.min.js is axe-core 4.14.1
// (https://github.com/dequelabs/axe-core), unchanged from its npm package. It
// finds barriers for people with assistive technology. Its license, the Mozilla
// Public License 2.0, is beside it.
package ui
