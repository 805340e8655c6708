/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's options: the words after its path in plugstack.conf, as "name=value".
 *
 * An unknown or invalid word is recorded as an error for the log and is otherwise
 * ignored, because a mistake in plugstack.conf must not stop a job.
 */
#ifndef GRIDSTEAD_OPTIONS_H
#define GRIDSTEAD_OPTIONS_H

#include <stddef.h>
#include <sys/socket.h>

enum {
	OPTIONS_ERROR_SIZE = 256
};

struct options {
	struct sockaddr_storage agent;  /* the address that reports are sent to */
	socklen_t agent_length;         /* 0 if no address is set: then nothing is sent */
	char error[OPTIONS_ERROR_SIZE]; /* error of the last invalid word, or empty */
};

/* Return the options that the words set. An IPv6 address is written in brackets. */
struct options options_parse(int count, char **words);

#endif
