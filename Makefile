# streamq: built with PGXS, see README.md
#
#   make, make install, make installcheck      as for any extension
#   make TEST_HOOKS=1                          with debug points and assertions, for tests only

EXTENSION = streamq
MODULE_big = streamq
DATA = streamq--1.0.sql
PGFILEDESC = "streamq - streaming queries over append-only tables"

OBJS = $(WIN32RES) \
	src/streamq.o \
	src/debug_point.o \
	src/settings.o \
	src/spi.o \
	src/lookup.o \
	src/catalog/querydef.o \
	src/catalog/checkpoint.o \
	src/catalog/sourcedef.o \
	src/progress/shared.o \
	src/progress/wakeup.o \
	src/arrivals/handler.o \
	src/arrivals/lookup.o \
	src/arrivals/map.o \
	src/arrivals/pending.o \
	src/offset.o \
	src/time_counts.o \
	src/source/guard.o \
	src/source/physical.o \
	src/source/range.o \
	src/source/readplan.o \
	src/source/since.o \
	src/source/survey.o \
	src/source/was_read.o \
	src/aggregate/aggregate.o \
	src/aggregate/image.o \
	src/aggregate/resume.o \
	src/aggregate/serialized.o \
	src/aggregate/state.o \
	src/compiler/accept.o \
	src/compiler/aggregation.o \
	src/compiler/compare.o \
	src/compiler/compile.o \
	src/compiler/delta.o \
	src/compiler/emit.o \
	src/compiler/emit_late.o \
	src/compiler/emit_sink.o \
	src/compiler/emit_show.o \
	src/compiler/emit_source.o \
	src/compiler/emit_state.o \
	src/compiler/event_time.o \
	src/compiler/groups.o \
	src/compiler/shape.o \
	src/compiler/strategy.o \
	src/compiler/streams.o \
	src/compiler/trace.o \
	src/compiler/tree.o \
	src/aggregate/partial.o \
	src/state/compact.o \
	src/state/table.o \
	src/sink/sink.o \
	src/batch/aggregate.o \
	src/batch/backlog.o \
	src/batch/batch.o \
	src/batch/runner.o \
	src/batch/finality.o \
	src/batch/plan.o \
	src/batch/prepared.o \
	src/batch/validity.o \
	src/batch/statement.o \
	src/batch/watermark.o \
	src/worker/launcher.o \
	src/worker/session.o \
	src/worker/slice.o \
	src/worker/worker.o \
	src/worker/pause.o \
	src/worker/notice.o \
	src/api/alter.o \
	src/api/arrivals.o \
	src/api/control.o \
	src/api/define.o \
	src/api/events.o \
	src/api/inspect.o \
	src/api/run.o \
	src/api/show.o \
	src/api/source.o

# REGRESS and ISOLATION: the lists of tests
-include test/regress_schedule.mk
ISOLATION_OPTS = --inputdir=test/isolation --outputdir=output_iso

# JIT has nothing to inline from here; without bitcode the build needs no clang
override with_llvm = no

PG_CFLAGS = -Wall -Wextra
ifdef TEST_HOOKS
PG_CFLAGS += -DSTREAMQ_TEST_HOOKS -DUSE_ASSERT_CHECKING
endif

PG_CONFIG = pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
# the server's headers are not ours to warn about
PG_CPPFLAGS = -I$(srcdir)/src -isystem $(shell $(PG_CONFIG) --includedir-server)
EXTRA_CLEAN = output_iso results regression.diffs regression.out
include $(PGXS)

# PostgreSQL was configured for gcc; clang does not know all of its flags
ifneq ($(findstring clang,$(CC)),)
override CFLAGS := $(filter-out -fexcess-precision=standard -Wimplicit-fallthrough=3 \
	-Wno-format-truncation -Wno-stringop-truncation,$(CFLAGS))
endif

# every object follows every header: small, and never stale
$(OBJS): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h)
