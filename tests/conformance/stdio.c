/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* stdio over a connection: fdopen, fprintf, fgets, dprintf. */
#include "conform.h"

#include <stdio.h>

static void lines(struct role *r)
{
	char buf[64] = "";
	FILE *in, *out, *asked = NULL;

	conn_open(r);
	CLIENT(r) {
		asked = fdopen(dup(r->c), "w");
		TRY(r, 13, fprintf(asked, "HELO %s %d\r\n", "host", 7));
		TRY(r, 0, fflush(asked));
	}
	SERVER(r) {
		in = fdopen(dup(r->s), "r");
		out = fdopen(dup(r->s), "w");
		CHECK(r, fgets(buf, sizeof(buf), in) != NULL);
		CHECK(r, strcmp(buf, "HELO host 7\r\n") == 0);
		CHECK(r, fputs("250 ok\r\n", out) >= 0);
		TRY(r, 0, fclose(out));
		TRY(r, 0, fclose(in));
	}
	CLIENT(r) {
		in = fdopen(dup(r->c), "r");
		CHECK(r, fgets(buf, sizeof(buf), in) && strcmp(buf, "250 ok\r\n") == 0);
		TRY(r, 0, fclose(in));
		TRY(r, 0, fclose(asked));
	}
	conn_close(r);
}

static void dprintf_getline(struct role *r)
{
	char *line = NULL;
	size_t size = 0;
	FILE *in;
	int i;

	conn_open(r);
	CLIENT(r) {
		for (i = 0; i < 3; i++)
			CHECK(r, dprintf(r->c, "line %d\n", i) == 7);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		in = fdopen(r->s, "r");
		for (i = 0; i < 3; i++)
			CHECK(r, getline(&line, &size, in) == 7 && line[5] == '0' + i);
		TRY(r, -1, getline(&line, &size, in));
		CHECK(r, feof(in) && !ferror(in));
		TRY(r, 0, fclose(in));
		free(line);
	}
	meet(r);
	CLIENT(r) {
		char buf[4];

		TRY(r, 0, recv(r->c, buf, 4, 0));
		TRY(r, 0, close(r->c));
	}
}

static void fread_fwrite(struct role *r)
{
	static char out[200000], in[sizeof(out)];
	FILE *f;

	conn_open(r);
	CLIENT(r) {
		memset(out, 'a', sizeof(out));
		f = fdopen(dup(r->c), "w");
		TRY(r, 200000, fwrite(out, 1, sizeof(out), f));
		TRY(r, 0, fclose(f));
	}
	SERVER(r) {
		f = fdopen(dup(r->s), "r");
		TRY(r, 200000, fread(in, 1, sizeof(in), f));
		CHECK(r, memchr(in, 0, sizeof(in)) == NULL);
		TRY(r, 0, fclose(f));
	}
	conn_close(r);
}

/* stdio and direct calls take turns on one connection. */
static void mixed(struct role *r)
{
	char buf[16] = "";
	FILE *f;

	conn_open(r);
	CLIENT(r) {
		f = fdopen(dup(r->c), "w");
		setvbuf(f, NULL, _IONBF, 0);
		TRY(r, 3, send(r->c, "abc", 3, 0));
		CHECK(r, fputs("def", f) >= 0);
		TRY(r, 3, write(r->c, "ghi", 3));
		TRY(r, 0, fclose(f));
	}
	SERVER(r) {
		TRY(r, 9, recv(r->s, buf, 9, MSG_WAITALL));
		CHECK(r, strcmp(buf, "abcdefghi") == 0);
	}
	conn_close(r);
}

const struct conf_case stdio_cases[] = {
	{ "stdio-lines", lines, 0 },
	{ "stdio-dprintf-getline", dprintf_getline, 0 },
	{ "stdio-fread-fwrite", fread_fwrite, 0 },
	{ "stdio-mixed", mixed, 0 },
	{ NULL, NULL, 0 }
};
