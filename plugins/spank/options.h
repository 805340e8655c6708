/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words after the plugin's path in plugstack.conf, as "name=value".
 *
 * What cannot be used is remembered as a complaint for the log and otherwise
 * ignored: a slip in plugstack.conf must not stop anybody's job.
 */
#ifndef GRIDSTEAD_OPTIONS_H
#define GRIDSTEAD_OPTIONS_H

#include <stddef.h>
#include <sys/socket.h>

enum {
	OPTIONS_COMPLAINT_SIZE = 256
};

struct options {
	struct sockaddr_storage agent; /* where reports go */
	socklen_t agent_length;        /* 0: no address, so nothing is sent */
	char complaint[OPTIONS_COMPLAINT_SIZE]; /* the last word that could not be used; or empty */
};

/* Return the options that the words give; an IPv6 address stands in brackets. */
struct options options_parse(int count, char **words);

#endif
