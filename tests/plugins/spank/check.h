/* SPDX-License-Identifier: Apache-2.0 */
/* A failed check is counted, and the test program continues. Its exit code reports failures. */
#ifndef GRIDSTEAD_CHECK_H
#define GRIDSTEAD_CHECK_H

#include <stdio.h>

static int check_failures = 0;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			(void)fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, \
				      #condition); \
			check_failures++; \
		} \
	} while (0)

#define CHECK_TEXT(expected, actual) \
	do { \
		if (strcmp((expected), (actual)) != 0) { \
			(void)fprintf(stderr, "%s:%d: expected '%s', got '%s'\n", __FILE__, \
				      __LINE__, (expected), (actual)); \
			check_failures++; \
		} \
	} while (0)

#endif
