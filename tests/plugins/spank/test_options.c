/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of options.c, which parses the options of the plugin in plugstack.conf. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "options.h"

static struct options parse_one(const char *text)
{
	char *word = strdup(text);
	struct options options = options_parse(1, &word);

	free(word);
	return options;
}

static void unusable_word_is_reported_and_ignored(void)
{
	static const char *const words[] = {
		"", "agent", "=", "agent=", "agent=10.0.0.1", "agent=10.0.0.1:",
		"agent=:6831", "agent=10.0.0.1:0", "agent=10.0.0.1:65536",
		"agent=10.0.0.1:-1", "agent=10.0.0.1: 6831", "agent=10.0.0.1:6831x",
		"agent=10.0.0.1:99999999999999999999", "agent=controller:6831",
		"agent=10.0.0.256:6831", "agent=[::1:6831", "agent=::1]:6831",
		"agent=[10.0.0.1]:6831", "agent=[]:6831", "agent=[:6831", "Agent=10.0.0.1:6831",
		"agents=10.0.0.1:6831", "agen=10.0.0.1:6831",
		"agent=1111111111111111111111111111111111111111111111111111:6831",
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct options options = parse_one(words[i]);

		CHECK(options.agent_length == 0);
		CHECK(strstr(options.error, "gridstead: options: couldn't use ") != NULL);
	}
}

static void message_about_a_long_word_is_truncated(void)
{
	char word[4096];
	struct options options;

	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	options = parse_one(word);
	CHECK(strlen(options.error) < OPTIONS_ERROR_SIZE);
	CHECK(strstr(options.error, "not a known option") != NULL);
}

static void unknown_word_does_not_affect_a_valid_word(void)
{
	char good[] = "agent=10.0.0.1:6831";
	char bad[] = "colour=blue";
	char *words[] = {good, bad};
	struct options options = options_parse(2, words);

	CHECK(options.agent_length == sizeof(struct sockaddr_in));
	CHECK(strstr(options.error, "colour=blue") != NULL);
}

static void no_words_mean_no_agent_and_no_message(void)
{
	struct options options = options_parse(0, NULL);

	CHECK(options.agent_length == 0);
	CHECK_TEXT("", options.error);
}

static void ipv4_agent_is_parsed(void)
{
	struct options options = parse_one("agent=10.77.0.2:6831");
	struct sockaddr_in address;
	char host[INET_ADDRSTRLEN];

	memcpy(&address, &options.agent, sizeof(address));
	CHECK(options.agent_length == sizeof(address));
	CHECK(address.sin_family == AF_INET);
	CHECK(ntohs(address.sin_port) == 6831);
	CHECK_TEXT("10.77.0.2", inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host)));
	CHECK_TEXT("", options.error);
}

static void ipv6_agent_is_parsed(void)
{
	struct options options = parse_one("agent=[fd00::2]:6831");
	struct sockaddr_in6 address;
	char host[INET6_ADDRSTRLEN];

	memcpy(&address, &options.agent, sizeof(address));
	CHECK(options.agent_length == sizeof(address));
	CHECK(address.sin6_family == AF_INET6);
	CHECK(ntohs(address.sin6_port) == 6831);
	CHECK_TEXT("fd00::2", inet_ntop(AF_INET6, &address.sin6_addr, host, sizeof(host)));
}

int main(void)
{
	unusable_word_is_reported_and_ignored();
	message_about_a_long_word_is_truncated();
	unknown_word_does_not_affect_a_valid_word();
	no_words_mean_no_agent_and_no_message();
	ipv4_agent_is_parsed();
	ipv6_agent_is_parsed();
	return check_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
