/*
** The door between Pantala's Rust and this Lua; see lpantala.c.
*/

#ifndef lpantala_h
#define lpantala_h

#include "lua.h"

/* bytes of the other side; mirrored in crates/scripting/src/raw.rs */
typedef struct HostSpan {
  const char *data;
  size_t len;
} HostSpan;

/* keys and arguments */
typedef struct HostLists {
  const HostSpan *keys;
  size_t keycount;
  const HostSpan *args;
  size_t argcount;
} HostLists;

/* runs a command; 0, or the script is to be aborted. The reply stays valid until
** the next call. */
typedef int (*HostCall) (const HostSpan *args, size_t count, HostSpan *reply);

/* whether a script may go on: 0, or it is to be aborted. Touches nothing of Lua's. */
typedef int (*HostTick) (void);

/* what a script returns, value by value; 0: no more of it */
typedef int (*HostEmit) (int kind, const char *data, size_t len, double number);

#define HOST_BULK	0
#define HOST_NUMBER	1
#define HOST_TRUE	2
#define HOST_FALSE	3
#define HOST_NIL	4
#define HOST_ARRAY	5
#define HOST_STATUS	6
#define HOST_ERROR	7

/* "err", "ok", and the fields that make a table another type */
#define HOST_FIELDS	7

#define HOST_NUMBER_BYTES	40

/* writes a number as a command's argument, returns its length */
typedef size_t (*HostNumber) (double number, char *text);

LUAI_FUNC void luaP_open (lua_State *L);
/* runs the host's part of the function that runs (ldo.c) */
LUAI_FUNC int luaP_host (lua_State *L);
/* asks the host whether to go on; raises what nothing catches if not */
LUAI_FUNC void luaP_tick (lua_State *L);
/* short(name, f), in lplibs.c */
LUAI_FUNC int luaP_short (lua_State *L);
struct global_State;
LUAI_FUNC void luaP_freescratch (struct global_State *g);
/* lets go of a large one */
LUAI_FUNC void luaP_restscratch (struct global_State *g);
/* the text of a number, as LUA_NUMBER_FMT has it */
LUAI_FUNC void luaP_number2str (char *s, lua_Number n);
/* 31 random bits */
LUAI_FUNC int luaP_random (lua_State *L);
LUAI_FUNC void luaP_seed (lua_State *L, int seed);

#endif
