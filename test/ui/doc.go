// Package ui holds the tests that look at the page of a real cell with a real
// browser: Chromium without a window, driven over its own protocol. It has no
// code of its own.
//
// Where there is no Chromium the tests are skipped, unless STOUT_TEST_BROWSER
// says which program it is; .ci/chromium installs one. STOUT_TEST_SHOTS names a
// directory for pictures of what the tests looked at; .ci/run keeps them in
// bin/pages.
//
// testdata/axe.min.js is axe-core 4.14.1 (https://github.com/dequelabs/axe-core),
// which finds what keeps people with assistive technology out, under the
// Mozilla Public License 2.0 beside it. It is as its package in npm has it.
package ui
