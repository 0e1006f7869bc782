/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_jsonread.c - JSON texts, whole and broken */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/lib/jsonread.h"

static void reads_what_it_should(void **state)
{
	struct json_value *v = jsonread(" {\"a\" : [1, -2.5e1 ,null,true,false,{}],\n"
					"\"b\":\"x\\\"\\\\\\n\\u0041\\u20ac\", \"a\":7} ");
	const struct json_value *a = jsonread_get(v, "a");

	assert_non_null(v);
	assert_int_equal(a->kind, JSON_ARRAY);
	assert_true(a->child->number == 1 && a->child->next->number == -25);
	assert_int_equal(a->child->next->next->kind, JSON_NULL);
	assert_string_equal(jsonread_string(v, "b", ""), "x\"\\\nA?");
	assert_true(jsonread_number(v, "b", 3) == 3);
	assert_null(jsonread_get(v, "c"));
	assert_null(jsonread_get(a, "a"));
	assert_null(jsonread_get(NULL, "a"));
	jsonread_free(v);
}

static void refuses_what_is_none(void **state)
{
	static const char *const broken[] = {
		"", " ", "{", "[", "[1", "[1,", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}",
		"{\"a\":1,}", "\"", "\"a", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u-123\"",
		"\"a\nb\"", "nul", "1 2", "[}", "-", "+1", "NaN",
	};

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		if (jsonread(broken[i]))
			fail_msg("taken: %s", broken[i]);
}

/* Every piece of a whole text, each at the end of its own memory. */
static void survives_any_beginning(void **state)
{
	static const char whole[] = "[{\"a\":[1.5,\"\\u00e4\\\\\"]},{\"b\":{\"c\":null}},-1e-3]";

	for (size_t n = 0; n <= strlen(whole); n++) {
		char *piece = malloc(n + 1);

		memcpy(piece, whole, n);
		piece[n] = '\0';
		struct json_value *v = jsonread(piece);

		assert_true((v != NULL) == (n == strlen(whole)));
		jsonread_free(v);
		free(piece);
	}
}

static void a_deep_one_is_refused(void **state)
{
	char deep[1001];

	memset(deep, '[', 1000);
	deep[1000] = '\0';
	assert_null(jsonread(deep));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_it_should),
		cmocka_unit_test(refuses_what_is_none),
		cmocka_unit_test(survives_any_beginning),
		cmocka_unit_test(a_deep_one_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
