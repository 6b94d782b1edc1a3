/*
 * readplan.c
 *		What a batch reads of each physical relation, and how the table sampling
 *		method gets to know.
 *
 * A batch's statement says TABLESAMPLE streamq.since($1, $2), but partitions
 * may have been read up to different offsets, and which blocks hold new rows
 * is known before the statement runs.  So the engine passes its plan along
 * with the parameters: a parameter list that carries it is recognised by its
 * parserSetup function.  That ties the plan to this one execution; the same
 * method called by a function inside the query reads by its arguments.
 */
#include "source/readplan.h"

#include "catalog/pg_type.h"

/* never called: executing an analysed statement parses nothing */
static void
carries_readplan(struct ParseState *pstate, void *arg)
{
	SQ_UNUSED(pstate);
	SQ_UNUSED(arg);
}

/*
 * A list of nparams offsets, all with the value given (which only those read
 * whom the plan does not tell more), that carries the plan.  They must not be
 * folded into constants, by which since() would not know them again.
 */
ParamListInfo
sq_readplan_params(const SqReadPlan *plan, int nparams, const SqOffset *value)
{
	ParamListInfo params = makeParamList(nparams);

	for (int i = 0; i < nparams; i++)
	{
		params->params[i].value = SqOffsetGetDatum(value);
		params->params[i].isnull = false;
		params->params[i].pflags = 0;
		params->params[i].ptype = PG_SNAPSHOTOID;
	}

	params->parserSetup = carries_readplan;
	params->parserSetupArg = unconstify(SqReadPlan *, plan);
	return params;
}

/* The plan that a parameter list carries, or NULL. */
const SqReadPlan *
sq_readplan_of_params(ParamListInfo params)
{
	if (params == NULL || params->parserSetup != carries_readplan)
		return NULL;
	return (const SqReadPlan *) params->parserSetupArg;
}

/* The part of a relation, or NULL if the batch reads nothing of it. */
const SqRelationRead *
sq_readplan_find(const SqReadPlan *plan, Oid relid)
{
	int			low = 0;
	int			high = plan->nrelations;

	/* relations are sorted by their oid */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (plan->relations[middle].relid < relid)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < plan->nrelations && plan->relations[low].relid == relid)
		return &plan->relations[low];
	return NULL;
}
