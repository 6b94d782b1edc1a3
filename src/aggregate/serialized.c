/*
 * serialized.c
 *		Are these bytes a serialized aggregate state?
 *
 * PostgreSQL calls the deserialization function of an aggregate with what its
 * serialization function has just returned, and so it need not expect anything
 * else.  Those of numeric's aggregates do check that there are enough bytes, but not
 * what the bytes say: a number whose weight lies far off makes them write outside
 * of their memory.  A state that is kept in a table, or is an argument in somebody's
 * SELECT, can be anything.  Hence, before they see it, each number is held
 * against what sums of numeric values can be.
 *
 * Assumes the formats of PostgreSQL 15 to 17 (numeric.c, timestamp.c); all integers
 * are in network byte order.  What the counts say is not checked: they are only calculated with.
 */
#include "aggregate/serialized.h"

#include "compat.h"
#include "port/pg_bswap.h"
#include "utils/fmgroids.h"

/*
 * A number in base 10000, as numericvar_serialize() writes it.  The largest
 * is a sum of up to 2^63 squares of numeric values, these having weights up to
 * NUMERIC_WEIGHT_MAX (0x7FFF) and NUMERIC_DSCALE_MAX (0x3FFF) decimal places.
 */
#define DIGIT_MAX 9999
#define WEIGHT_MAX (2 * 0x8000 + 8)
#define DSCALE_MAX (2 * 0x3FFF)
#define WEIGHT_MIN (-(DSCALE_MAX / 4 + 2))
#define NDIGITS_MAX (WEIGHT_MAX - WEIGHT_MIN)
#define SIGN_POSITIVE 0x0000
#define SIGN_NEGATIVE 0x4000

/* what a state is made of, one letter a field */
#define COUNT 'c'				/* int64 */
#define SCALE 's'				/* int32; a part of an interval, too */
#define NUMBER 'n'				/* see above */

typedef struct Format
{
	Oid			deserialfn;
	const char *fields;
} Format;

static const Format formats[] = {
	{F_NUMERIC_AVG_DESERIALIZE, "cnscccc"},
	{F_NUMERIC_DESERIALIZE, "cnnscccc"},
	{F_NUMERIC_POLY_DESERIALIZE, "cnn"},
	{F_INT8_AVG_DESERIALIZE, "cn"},
	{F_INTERVAL_AVG_DESERIALIZE, "ccsscc"},
};

typedef struct Cursor
{
	const char *next;
	const char *end;
} Cursor;

static bool
skip(Cursor *cursor, ptrdiff_t length)
{
	if (cursor->end - cursor->next < length)
		return false;
	cursor->next += length;
	return true;
}

static bool
read_int32(Cursor *cursor, int32 *value)
{
	uint32		raw;

	if (!skip(cursor, sizeof(raw)))
		return false;
	memcpy(&raw, cursor->next - sizeof(raw), sizeof(raw));
	*value = (int32) pg_ntoh32(raw);
	return true;
}

static bool
read_number(Cursor *cursor)
{
	int32		ndigits;
	int32		weight;
	int32		sign;
	int32		dscale;
	const char *digits;

	if (!read_int32(cursor, &ndigits) || !read_int32(cursor, &weight) ||
		!read_int32(cursor, &sign) || !read_int32(cursor, &dscale))
		return false;
	if (ndigits < 0 || ndigits > NDIGITS_MAX ||
		weight < WEIGHT_MIN || weight > WEIGHT_MAX ||
		(sign != SIGN_POSITIVE && sign != SIGN_NEGATIVE) ||
		dscale < 0 || dscale > DSCALE_MAX)
		return false;
	digits = cursor->next;
	if (!skip(cursor, ndigits * (ptrdiff_t) sizeof(uint16)))
		return false;
	for (int i = 0; i < ndigits; i++)
	{
		uint16		digit;

		memcpy(&digit, digits + i * sizeof(digit), sizeof(digit));
		if (pg_ntoh16(digit) > DIGIT_MAX)
			return false;
	}
	return true;
}

static const char *
fields_of(Oid deserialfn)
{
	for (int i = 0; i < (int) lengthof(formats); i++)
		if (OidIsValid(deserialfn) && formats[i].deserialfn == deserialfn)
			return formats[i].fields;
	return NULL;
}

/* True if it can be told what this function can safely read. */
bool
sq_serialized_is_known(Oid deserialfn)
{
	return fields_of(deserialfn) != NULL;
}

/*
 * True if the function, which is a known one, can safely read the bytes.  They
 * have to be detoasted; a short header is fine.
 */
bool
sq_serialized_is_valid(Oid deserialfn, const bytea *state)
{
	const char *fields = fields_of(deserialfn);
	Cursor		cursor;

	Assert(fields != NULL);
	cursor.next = VARDATA_ANY(state);
	cursor.end = cursor.next + VARSIZE_ANY_EXHDR(state);

	for (; *fields != '\0'; fields++)
	{
		switch (*fields)
		{
			case COUNT:
				if (!skip(&cursor, sizeof(int64)))
					return false;
				break;
			case SCALE:
				if (!skip(&cursor, sizeof(int32)))
					return false;
				break;
			case NUMBER:
				if (!read_number(&cursor))
					return false;
				break;
		}
	}
	return cursor.next == cursor.end;
}
