// SPDX-License-Identifier: BSD-2-Clause
// The target with the precompiled header of the tests has to have a source.
