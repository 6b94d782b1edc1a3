/*
 * image.c
 *		SQL function row_image: the bytes that a row is made of.
 *
 * Two rows of the same type have equal images exactly when record_image_eq(),
 * the operator *=, holds for them.  So rows can be compared, grouped and made unique
 * also where a type has no equality (json, point), and values that are equal but not
 * the same stay apart (1.0 and 1.00).  How a column is stored does not matter:
 * compressed or not, in the row or in a TOAST table.  Inside of a composite value
 * compression does matter, there as here.
 *
 * Images are for this purpose only: there is no way back, images of rows of
 * different types mean nothing to each other, and another major version of
 * PostgreSQL or another architecture may give others.  Nothing is kept between calls;
 * works in the caller's memory context.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(streamq_row_image);

/* a column's first byte */
#define IMAGE_NULL '\0'
#define IMAGE_VALUE '\1'

static void
append_bytes(StringInfo image, const void *bytes, Size length)
{
	uint32		length32 = (uint32) length;

	appendStringInfoChar(image, IMAGE_VALUE);
	appendBinaryStringInfo(image, (const char *) &length32, sizeof(length32));
	appendBinaryStringInfo(image, bytes, (int) length);
}

/* The distinctions made are those of datum_image_eq(). */
static void
append_value(StringInfo image, Datum value, Form_pg_attribute attribute)
{
	if (attribute->attbyval)
		append_bytes(image, &value, sizeof(value));
	else if (attribute->attlen > 0)
		append_bytes(image, DatumGetPointer(value), attribute->attlen);
	else if (attribute->attlen == -1)
	{
		struct varlena *plain = PG_DETOAST_DATUM_PACKED(value);

		append_bytes(image, VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain));
		if ((Pointer) plain != DatumGetPointer(value))
			pfree(plain);
	}
	else
	{
		const char *string = DatumGetCString(value);

		Assert(attribute->attlen == -2);
		append_bytes(image, string, strlen(string));
	}
}

/*
 * streamq.row_image(record) RETURNS bytea
 *
 * Column by column a byte that says whether there is a value, its length and
 * its bytes.  NULL for NULL, but not for a row of NULLs.
 */
Datum
streamq_row_image(PG_FUNCTION_ARGS)
{
	HeapTupleHeader row = PG_GETARG_HEAPTUPLEHEADER(0);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(row),
											  HeapTupleHeaderGetTypMod(row));
	HeapTupleData tuple;
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);
	StringInfoData image;

	tuple.t_len = HeapTupleHeaderGetDatumLength(row);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = row;
	heap_deform_tuple(&tuple, desc, values, nulls);

	initStringInfo(&image);
	appendStringInfoSpaces(&image, VARHDRSZ);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (attribute->attisdropped)
			continue;
		if (nulls[i])
			appendStringInfoChar(&image, IMAGE_NULL);
		else
			append_value(&image, values[i], attribute);
	}
	SET_VARSIZE(image.data, image.len);

	ReleaseTupleDesc(desc);
	pfree(values);
	pfree(nulls);
	PG_FREE_IF_COPY(row, 0);
	PG_RETURN_BYTEA_P(image.data);
}
