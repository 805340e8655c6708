/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PORT_MAX = 65535,
	PORT_BASE = 10
};

/* Return the port number, or 0 if the text is not a valid port number. */
static in_port_t port_from_text(const char *text)
{
	char *rest = NULL;
	unsigned long port;

	if (text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	port = strtoul(text, &rest, PORT_BASE);
	if (errno != 0 || *rest != '\0' || port > PORT_MAX)
		return 0;
	return (in_port_t)port;
}

static int agent_from_ipv4(const char *host, in_port_t port, struct options *options)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		return -1;
	memcpy(&options->agent, &address, sizeof(address));
	options->agent_length = sizeof(address);
	return 0;
}

static int agent_from_ipv6(const char *host, in_port_t port, struct options *options)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (inet_pton(AF_INET6, host, &address.sin6_addr) != 1)
		return -1;
	memcpy(&options->agent, &address, sizeof(address));
	options->agent_length = sizeof(address);
	return 0;
}

/* Parse <IPv4>:<port> or [<IPv6>]:<port>. A host name is refused, so no name is resolved. */
static int agent_parse(const char *value, struct options *options)
{
	char host[INET6_ADDRSTRLEN + 2];
	const char *colon = strrchr(value, ':');
	size_t length;
	in_port_t port;

	if (colon == NULL)
		return -1;
	port = port_from_text(colon + 1);
	length = (size_t)(colon - value);
	if (port == 0 || length == 0 || length >= sizeof(host))
		return -1;
	memcpy(host, value, length);
	host[length] = '\0';

	if (host[0] != '[')
		return agent_from_ipv4(host, port, options);
	if (host[length - 1] != ']')
		return -1;
	host[length - 1] = '\0';
	return agent_from_ipv6(host + 1, port, options);
}

static const struct {
	const char *name;
	int (*parse)(const char *value, struct options *options);
} option_table[] = {
	{"agent", agent_parse},
};

/* Parse one word into the options. Return 0 if the word is a known option with a valid value. */
static int word_parse(const char *word, struct options *options)
{
	const char *equals = strchr(word, '=');
	size_t length;
	size_t i;

	if (equals == NULL)
		return -1;
	length = (size_t)(equals - word);
	for (i = 0; i < sizeof(option_table) / sizeof(option_table[0]); i++) {
		if (strlen(option_table[i].name) == length &&
		    strncmp(option_table[i].name, word, length) == 0)
			return option_table[i].parse(equals + 1, options);
	}
	return -1;
}

struct options options_parse(int count, char **words)
{
	struct options options;
	int i;

	memset(&options, 0, sizeof(options));
	for (i = 0; i < count; i++) {
		if (word_parse(words[i], &options) != 0)
			(void)snprintf(options.error, sizeof(options.error),
				       "gridstead: options: couldn't use %.160s: "
				       "not a known option with a valid value",
				       words[i]);
	}
	return options;
}
