/*
** The door between Pantala's Rust and this Lua: what must be fast, or must not
** leap over Rust frames, or has no place in the public interface.
**
** Not part of Lua 5.1.5. `luaP_open' leaves one global table, `__pantala', that
** the host takes away before any script runs.
**
** While a script runs `memfree' is 0 and the limit of memory counts; each call of
** host code sets it to 1 and back (ldo.c), so that no error of memory leaps over
** host frames.
**
** Tests: crates/scripting/tests.
*/

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define lpantala_c
#define LUA_LIB

#include "lua.h"

#include "lauxlib.h"
#include "lapi.h"
#include "ldebug.h"
#include "ldo.h"
#include "lgc.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"
#include "ltable.h"
#include "lpantala.h"


/* garbage that may stay when a script has ended, beside twice what was in use */
#define IDLE_GARBAGE	((lu_mem)1 << 20)


/* the line that the script is at, or 0 */
static int currentline (lua_State *L) {
  lua_Debug ar;
  int level;
  for (level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "l", &ar);
    if (ar.currentline > 0) return ar.currentline;
  }
  return 0;
}


static int abortscript (lua_State *L) {
  global_State *g = G(L);
  if (!g->aborting) g->abortline = currentline(L);
  g->aborting = 1;
  L->hookcount = 1;  /* whoever goes on all the same comes back here */
  lua_pushliteral(L, "script aborted");
  return lua_error(L);
}


static void seterror (lua_State *L, int text) {
  text = (text < 0) ? lua_gettop(L) + 1 + text : text;
  lua_newtable(L);
  lua_pushliteral(L, "err");
  lua_pushvalue(L, text);
  lua_rawset(L, -3);
}


/* the error text on top: raised by redis.call, returned by redis.pcall */
static int fail (lua_State *L, int stats) {
  seterror(L, -1);
  if (stats) {
    lua_pushliteral(L, "ignore_error_stats_update");
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  return lua_toboolean(L, lua_upvalueindex(2)) ? lua_error(L) : 1;
}


/* a number as the command gets it */
static void numbertext (lua_State *L, int i) {
  char text[HOST_NUMBER_BYTES];
  size_t len = G(L)->hostnumber(lua_tonumber(L, i), text);
  lua_pushlstring(L, text, len);
  lua_replace(L, i);
}


/*
** {======================================================
** Replies. Bulk strings, integers, nil of RESP2, and lists of these, here; all
** other types, and what is not well formed, by the host's function. Every length
** is checked against the end.
** =======================================================
*/

/* the integer of a header line, and where the next begins; NULL if it is none */
static const char *header (const char *at, const char *end, long long *value) {
  unsigned long long n = 0;
  int negative = 0;
  const char *first;
  if (at < end && *at == '-') { negative = 1; at++; }
  for (first = at; at < end && *at >= '0' && *at <= '9'; at++) {
    if (at - first >= 19) return NULL;
    n = n * 10 + (unsigned)(*at - '0');
  }
  if (at == first || end - at < 2 || at[0] != '\r' || at[1] != '\n') return NULL;
  if (n > 9223372036854775807ULL) return NULL;
  *value = negative ? -(long long)n : (long long)n;
  return at + 2;
}


/* pushes the value at `at'; where the next begins, or NULL */
static const char *pushreply (lua_State *L, const char *at, const char *end,
                              int depth) {
  long long n;
  char kind;
  if (at >= end || depth > 8) return NULL;
  kind = *at;
  if (kind != '$' && kind != ':' && kind != '*') return NULL;
  at = header(at + 1, end, &n);
  if (at == NULL) return NULL;
  if (kind == ':')
    lua_pushnumber(L, (lua_Number)n);
  else if (n == -1)
    lua_pushboolean(L, 0);
  else if (n < 0)
    return NULL;
  else if (kind == '$') {
    if (end - at < 2 || n > end - at - 2) return NULL;
    lua_pushlstring(L, at, (size_t)n);
    at += n + 2;
  }
  else {
    int i;
    if (n > (end - at) / 4 + 1) return NULL;  /* a value has 4 bytes or more */
    lua_createtable(L, (int)n, 0);
    for (i = 1; i <= (int)n; i++) {
      at = pushreply(L, at, end, depth + 1);
      if (at == NULL) return NULL;
      lua_rawseti(L, -2, i);
      if ((i & 63) == 63) lua_charge(L, 64);
    }
  }
  return at;
}

/* }====================================================== */


static int pushstatus (lua_State *L, const char *text, size_t len) {
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "ok");
  lua_pushlstring(L, text, len);
  lua_rawset(L, -3);
  return 1;
}


/* what the host replied */
static int returned (lua_State *L, HostSpan reply) {
  const char *end = reply.data + reply.len;
  const char *last = end - 2;
  if (reply.len > 2 && *reply.data == '-') {
    lua_pushlstring(L, reply.data + 1, (size_t)(last - reply.data) - 1);
    return fail(L, 1);
  }
  if (reply.len > 2 && *reply.data == '+')
    return pushstatus(L, reply.data + 1, (size_t)(last - reply.data) - 1);
  lua_settop(L, 0);  /* arguments may have filled the stack; there are 20 slots now */
  if (pushreply(L, reply.data, end, 0) != NULL) return 1;
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 0, 1);
  return 1;
}


/*
** redis.call and redis.pcall. Upvalues: the host's function for other replies
** (it still has the bytes), whether to raise.
*/
static int rediscall (lua_State *L) {
  HostSpan few[16];
  HostSpan *args = few;
  HostSpan reply;
  int n = lua_gettop(L);
  int i;
  if (n == 0) {
    lua_pushliteral(L, "ERR Please specify at least one argument for this call");
    return fail(L, 0);
  }
  if (n > (int)(sizeof(few)/sizeof(few[0])))
    args = (HostSpan *)lua_newuserdata(L, (size_t)n * sizeof(HostSpan));
  for (i = 1; i <= n; i++) {
    TValue *arg = L->base + i - 1;
    if (ttisnumber(arg)) {
      numbertext(L, i);
      arg = L->base + i - 1;
    }
    else if (!ttisstring(arg)) {
      lua_pushliteral(L, "ERR Command arguments must be strings or integers");
      return fail(L, 0);
    }
    args[i-1].data = svalue(arg);
    args[i-1].len = tsvalue(arg)->len;
  }
  if (G(L)->hostcall(args, (size_t)n, &reply) != 0) return abortscript(L);
  return returned(L, reply);
}


/* rediscall(f, raise) */
static int newrediscall (lua_State *L) {
  lua_settop(L, 2);
  lua_pushcclosure(L, rediscall, 2);
  return 1;
}


/* raising(f): `f' returns its values, or an error's text and true */
static int raising (lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 2);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return lua_isnil(L, -1) ? 0 : 1;
  }
  lua_pop(L, 1);
  seterror(L, -1);
  return lua_error(L);
}


static int newraising (lua_State *L) {
  lua_settop(L, 1);
  lua_pushcclosure(L, raising, 1);
  return 1;
}


/*
** Makes any error a table with `err', `source' and `line' of where it was
** raised. Scripts can call it, by the names that the reference gives it.
*/
static int errhandler (lua_State *L) {
  lua_Debug ar;
  int known = 0;
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TUSERDATA) return 1;  /* the host's own trouble */
  if (lua_getstack(L, 1, &ar)) {
    known = 1;
    lua_getinfo(L, "Sl", &ar);
    if (*ar.what == 'C' && lua_getstack(L, 2, &ar))
      lua_getinfo(L, "Sl", &ar);
  }
  if (!lua_istable(L, 1)) {
    lua_pushliteral(L, "ERR ");
    lua_getglobal(L, "tostring");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    lua_concat(L, 2);
    seterror(L, -1);
    lua_replace(L, 1);
    lua_settop(L, 1);
  }
  if (known && !hvalue(L->base)->readonly) {
    lua_pushliteral(L, "source");
    lua_pushstring(L, ar.source);
    lua_rawset(L, 1);
    lua_pushliteral(L, "line");
    lua_pushinteger(L, ar.currentline);
    lua_rawset(L, 1);
  }
  return 1;
}


/* the `n' strings that the host has at `spans', in the array of a table */
static void filllist (lua_State *L, Table *t, const HostSpan *spans, int n) {
  int i;
  for (i = 0; i < n; i++) {
    TString *ts = luaS_newlstr(L, spans[i].data, spans[i].len);
    setsvalue2n(L, &t->array[i], ts);
    luaC_barriert(L, t, &t->array[i]);
    if ((i & 63) == 63) lua_charge(L, 64);  /* strings of one hash take long */
  }
}


/* a table of them */
static void pushlist (lua_State *L, const HostSpan *spans, int n) {
  Table *t;
  luaC_checkGC(L);
  t = luaH_new(L, n, 0);
  sethvalue(L, L->top, t);
  incr_top(L);
  filllist(L, t, spans, n);
}


/* sets a global that scripts may not set, from the stack or to nil */
static void setshared (lua_State *L, TString *name, int i) {
  Table *globals = hvalue(gt(L));
  if (i == 0) {
    const TValue *slot = luaH_getstr(globals, name);
    if (slot != luaO_nilobject) setnilvalue(cast(TValue *, slot));
  }
  else {
    TValue *slot = luaH_setstr(L, globals, name);
    setobj2t(L, slot, L->base + i - 1);
    luaC_barriert(L, globals, L->base + i - 1);
  }
}


/* memory that a script made the state grow by comes back when it has ended */
static void tidy (lua_State *L) {
  global_State *g = G(L);
  if (g->totalbytes > 2 * g->idlebytes + IDLE_GARBAGE) {
    luaC_fullgc(L);
    g->idlebytes = g->totalbytes;
  }
}


/*
** {======================================================
** What a script returns: texts, numbers, booleans, nil, lists of these, statuses
** and errors, as they are; all else, and what is deep or has very many values,
** is left to the host.
** =======================================================
*/

#define EMIT_DEPTH	8
#define EMIT_VALUES	100000

static int emit (lua_State *L, const TValue *o, int depth, int *budget);


/* a kilobyte is as much work as a value; one text may be as long as it likes */
static int emittext (lua_State *L, int kind, const TValue *o, int *budget) {
  size_t work = tsvalue(o)->len / 1024;
  if (*budget < EMIT_VALUES - 1 && work > (size_t)*budget) return 0;
  *budget -= (work < (size_t)*budget) ? (int)work : *budget;
  return G(L)->hostemit(kind, svalue(o), tsvalue(o)->len, 0);
}


static int emitlist (lua_State *L, Table *t, int depth, int *budget) {
  int n = 0;
  int i;
  while (n < *budget && !ttisnil(luaH_getnum(t, n + 1))) n++;
  if (n == *budget || !G(L)->hostemit(HOST_ARRAY, NULL, 0, n)) return 0;
  for (i = 1; i <= n; i++)
    if (!emit(L, luaH_getnum(t, i), depth + 1, budget)) return 0;
  return 1;
}


static int emittable (lua_State *L, Table *t, int depth, int *budget) {
  global_State *g = G(L);
  int i;
  if (t->lsizenode > 0 || !ttisnil(gval(gnode(t, 0)))) {  /* any fields? */
    const TValue *err = luaH_getstr(t, g->fields[0]);
    const TValue *ok = luaH_getstr(t, g->fields[1]);
    if (ttisstring(err)) return emittext(L, HOST_ERROR, err, budget);
    if (ttisstring(ok)) return emittext(L, HOST_STATUS, ok, budget);
    for (i = 2; i < HOST_FIELDS; i++)
      if (!ttisnil(luaH_getstr(t, g->fields[i]))) return 0;
  }
  return emitlist(L, t, depth, budget);
}


/* 0: the host must do it all */
static int emit (lua_State *L, const TValue *o, int depth, int *budget) {
  HostEmit host = G(L)->hostemit;
  if (depth > EMIT_DEPTH || --*budget <= 0) return 0;
  switch (ttype(o)) {
    case LUA_TSTRING: return emittext(L, HOST_BULK, o, budget);
    case LUA_TNUMBER: return host(HOST_NUMBER, NULL, 0, nvalue(o));
    case LUA_TBOOLEAN: return host(bvalue(o) ? HOST_TRUE : HOST_FALSE, NULL, 0, 0);
    case LUA_TTABLE: return emittable(L, hvalue(o), depth, budget);
    default: return host(HOST_NIL, NULL, 0, 0);
  }
}

/* }====================================================== */


/* statuses beside Lua's */
#define ABORTED	(-1)
#define EMITTED	(-2)

/*
** the function and `nargs' arguments on the stack; leaves status and result, the
** line of what was aborted
*/
static int protect (lua_State *L, int nargs, int emits) {
  global_State *g = G(L);
  int status;
  StkId func = L->top - nargs - 1;
  StkId at;
  for (at = L->top; at > func; at--) setobjs2s(L, at, at - 1);
  setobj2s(L, func, &curr_func(L)->c.upvalue[0]);  /* the error handler */
  L->top++;
  g->aborting = 0;
  g->abortline = 0;
  g->jsonset = 0;
  g->memsoft = g->memlimit ? g->memlimit - g->memlimit/8 : MAX_LUMEM;
  resethookcount(L);
  g->memfree = 0;
  status = lua_pcall(L, nargs, 1, (int)(func - L->base) + 1);
  g->memfree = 1;
  g->memsoft = MAX_LUMEM;
  luaP_restscratch(g);
  if (g->aborting) {
    status = ABORTED;
    setnvalue(L->top - 1, cast_num(g->abortline));
  }
  else if (status == 0 && emits) {
    int budget = EMIT_VALUES;
    if (emit(L, L->top - 1, 0, &budget)) {
      setnvalue(L->top - 1, cast_num(EMITTED));
      return 1;
    }
  }
  g->aborting = 0;
  setobjs2s(L, L->top, L->top - 1);
  setnvalue(L->top - 1, cast_num(status));
  L->top++;
  return 2;
}


/*
** run(f, lists), call(f, lists): these are the host's, and stay valid until the
** function returns. Pushes both tables.
*/
static void pushlists (lua_State *L) {
  const HostLists *lists = (const HostLists *)lua_touserdata(L, 2);
  pushlist(L, lists->keys, (int)lists->keycount);
  pushlist(L, lists->args, (int)lists->argcount);
}


/*
** A list as a global. That of the last run is nobody else's, since no run leaves
** anything for the next: if it has this length and is nothing but a list, it is
** filled anew.
*/
static void sharelist (lua_State *L, TString *name, const HostSpan *spans, int n) {
  const TValue *slot = luaH_getstr(hvalue(gt(L)), name);
  if (ttistable(slot)) {
    Table *t = hvalue(slot);
    if (t->sizearray == n && t->lsizenode == 0 && ttisnil(gval(gnode(t, 0))) &&
        t->metatable == NULL) {
      filllist(L, t, spans, n);
      return;
    }
  }
  pushlist(L, spans, n);
  setshared(L, name, lua_gettop(L));
}


/* run(f, ...): a script */
static int run (lua_State *L) {
  const HostLists *lists = (const HostLists *)lua_touserdata(L, 2);
  G(L)->aborting = 0;
  sharelist(L, G(L)->keysname, lists->keys, (int)lists->keycount);
  sharelist(L, G(L)->argvname, lists->args, (int)lists->argcount);
  lua_settop(L, 1);
  return protect(L, 0, 1);
}


/* call(f, ...): a library's function */
static int callfunction (lua_State *L) {
  G(L)->aborting = 0;
  pushlists(L);
  setshared(L, G(L)->keysname, 0);
  setshared(L, G(L)->argvname, 0);
  lua_pushvalue(L, 1);
  lua_insert(L, 3);
  return protect(L, 2, 1);
}


/* load(f): a library's code */
static int loadlibrary (lua_State *L) {
  lua_settop(L, 1);
  return protect(L, 0, 0);
}


/*
** What a compiled function takes, with those in it. Strings that others have, too,
** count again.
*/
static size_t weight (const Proto *f) {
  size_t bytes = sizeof(Proto) + sizeof(Instruction) * (size_t)f->sizecode +
                 sizeof(TValue) * (size_t)f->sizek + sizeof(Proto *) * (size_t)f->sizep +
                 sizeof(int) * (size_t)f->sizelineinfo +
                 sizeof(LocVar) * (size_t)f->sizelocvars +
                 sizeof(TString *) * (size_t)f->sizeupvalues;
  int i;
  for (i = 0; i < f->sizek; i++)
    if (ttisstring(&f->k[i])) bytes += sizestring(tsvalue(&f->k[i]));
  for (i = 0; i < f->sizelocvars; i++)
    if (f->locvars[i].varname) bytes += sizestring(&f->locvars[i].varname->tsv);
  for (i = 0; i < f->sizep; i++)  /* as deep as the parser goes, 200 */
    bytes += weight(f->p[i]);
  return bytes;
}


/*
** compile(text, chunk name [, environment]): function and its weight in bytes, or
** nil, an error, and whether that is the host's will
*/
static int compile (lua_State *L) {
  global_State *g = G(L);
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  const char *name = luaL_checkstring(L, 2);
  int status;
  g->aborting = 0;
  resethookcount(L);
  g->memfree = 0;
  status = luaL_loadbuffer(L, text, len, name);
  g->memfree = 1;
  if (status != 0) {
    lua_pushnil(L);
    lua_insert(L, -2);
    lua_pushboolean(L, g->aborting);
    g->aborting = 0;
    return 3;
  }
  if (lua_istable(L, 3)) {
    lua_pushvalue(L, 3);
    lua_setfenv(L, -2);
  }
  lua_pushnumber(L, (lua_Number)weight(clvalue(L->top - 1)->l.p));
  return 2;
}


/* readonly(t, flag) */
static int readonly (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_setreadonly(L, 1, lua_toboolean(L, 2));
  return 0;
}


/*
** The host asks nothing of Lua meanwhile: so a library may be in the midst of its
** tables here, and nothing is collected under it.
*/
void luaP_tick (lua_State *L) {
  global_State *g = G(L);
  if (g->hosttick == NULL) return;
  if (g->aborting || g->hosttick() != 0) abortscript(L);
}


static void hook (lua_State *L, lua_Debug *ar) {
  (void)ar;
  luaP_tick(L);
}


static TString *fixedname (lua_State *L, const char *name) {
  TString *ts = luaS_new(L, name);
  luaS_fix(ts);
  return ts;
}


/*
** setup(convert, bytes, instructions, seed, call, number, emit, tick): once, for
** the whole state; the last four are pointers to functions of the host
*/
static int setup (lua_State *L) {
  global_State *g = G(L);
  static const char *const fields[HOST_FIELDS] =
    {"err", "ok", "double", "map", "set", "big_number", "verbatim_string"};
  int i;
  lua_Number bytes = luaL_checknumber(L, 2);
  int instructions = luaL_checkint(L, 3);
  luaP_seed(L, luaL_checkint(L, 4));
  g->hostcall = (HostCall)lua_touserdata(L, 5);
  g->hostnumber = (HostNumber)lua_touserdata(L, 6);
  g->hostemit = (HostEmit)lua_touserdata(L, 7);
  g->hosttick = (HostTick)lua_touserdata(L, 8);
  for (i = 0; i < HOST_FIELDS; i++)
    g->fields[i] = fixedname(L, fields[i]);
  g->keysname = fixedname(L, "KEYS");
  g->argvname = fixedname(L, "ARGV");
  g->hostfn = lua_tocfunction(L, 1);  /* one for all functions of mlua */
  lua_settop(L, 1);
  g->convertref = luaL_ref(L, LUA_REGISTRYINDEX);
  g->memlimit = (lu_mem)bytes;
  lua_sethook(L, hook, LUA_MASKCOUNT, instructions);
  return 0;
}


/* limit(bytes): how many a script may have from now on; 0: no limit */
static int limit (lua_State *L) {
  G(L)->memlimit = (lu_mem)luaL_checknumber(L, 1);
  return 0;
}


/* charge(n): work that a function of the host has done */
static int charge (lua_State *L) {
  lua_charge(L, (size_t)luaL_checknumber(L, 1));
  return 0;
}


/* jsonset(): from now on, and to its end, this run asks the host for cjson */
static int jsonset (lua_State *L) {
  G(L)->jsonset = 1;
  return 0;
}


/* idle(): the state is as large as it should be when nothing runs */
static int idle (lua_State *L) {
  luaC_fullgc(L);
  G(L)->idlebytes = G(L)->totalbytes;
  return 0;
}


/* drop(): the keys and arguments of the last run are garbage */
static int drop (lua_State *L) {
  setshared(L, G(L)->keysname, 0);
  setshared(L, G(L)->argvname, 0);
  return 0;
}


/* rest(): between two runs */
static int rest (lua_State *L) {
  tidy(L);
  return 0;
}


/*
** {======================================================
** Random numbers: the 48 bit generator of drand48, per state, so that a seed
** gives the same numbers on every system and in the reference.
** =======================================================
*/

void luaP_seed (lua_State *L, int seed) {
  G(L)->random = ((unsigned long long)(unsigned int)seed << 16) + 0x330E;
}


int luaP_random (lua_State *L) {
  global_State *g = G(L);
  g->random = (g->random * 0x5DEECE66DULL + 0xB) & 0xFFFFFFFFFFFFULL;
  return (int)(g->random >> 17);
}

/* }====================================================== */


/*
** Whole numbers of up to 14 digits by hand: what scripts make keys of, and sprintf
** takes ten times as long. Not zero, which may have a sign.
*/
void luaP_number2str (char *s, lua_Number n) {
  char digits[LUAI_MAXNUMBER2STR];
  char *at = digits + sizeof(digits);
  long long whole;
  if (!(n > -1e14 && n < 1e14) || n == 0 || (lua_Number)(whole = (long long)n) != n) {
    sprintf(s, LUA_NUMBER_FMT, n);
    return;
  }
  if (whole < 0) {
    *s++ = '-';
    whole = -whole;
  }
  *--at = '\0';
  for (; whole > 0; whole /= 10) *--at = (char)('0' + whole % 10);
  memcpy(s, at, (size_t)(digits + sizeof(digits) - at));
}


/*
** {======================================================
** `bit' as in LuaBitOp 1.0.2: so short that the way into the host would be most of
** it. A number is taken modulo 2^32 after rounding to the nearest,
** ties to even. Of wrong arguments the first is named, then the last before the
** others.
** =======================================================
*/

static unsigned int word (lua_State *L, int i) {
  union { lua_Number n; unsigned long long bits; } u;
  const TValue *arg = L->base + i - 1;
  u.n = (arg < L->top && ttisnumber(arg)) ? nvalue(arg) : luaL_checknumber(L, i);
  u.n += 6755399441055744.0;  /* 2^52 + 2^51: the lowest bit counts ones now */
  return (unsigned int)u.bits;
}


static int pushword (lua_State *L, unsigned int w) {
  lua_pushnumber(L, (lua_Number)(int)w);
  return 1;
}


#define BIT_ONE(name, result) \
  static int name (lua_State *L) { \
    unsigned int w = word(L, 1); \
    return pushword(L, result); \
  }

#define BIT_MANY(name, operation) \
  static int name (lua_State *L) { \
    unsigned int w = word(L, 1); \
    int i; \
    for (i = lua_gettop(L); i > 1; i--) w operation word(L, i); \
    return pushword(L, w); \
  }

#define BIT_SHIFT(name, result) \
  static int name (lua_State *L) { \
    unsigned int w = word(L, 1); \
    unsigned int n = word(L, 2) & 31; \
    return pushword(L, result); \
  }

BIT_ONE(bit_tobit, w)
BIT_ONE(bit_bnot, ~w)
BIT_ONE(bit_bswap, (w >> 24) | ((w >> 8) & 0xff00) | ((w & 0xff00) << 8) | (w << 24))
BIT_MANY(bit_band, &=)
BIT_MANY(bit_bor, |=)
BIT_MANY(bit_bxor, ^=)
BIT_SHIFT(bit_lshift, w << n)
BIT_SHIFT(bit_rshift, w >> n)
BIT_SHIFT(bit_arshift, (unsigned int)((int)w >> n))
BIT_SHIFT(bit_rol, (w << n) | (w >> ((32 - n) & 31)))
BIT_SHIFT(bit_ror, (w >> n) | (w << ((32 - n) & 31)))

/* the last digits, as many as the second argument says; negative: in capitals */
static int bit_tohex (lua_State *L) {
  unsigned int w = word(L, 1);
  int n = lua_isnone(L, 2) ? 8 : (int)word(L, 2);
  const char *digits = (n < 0) ? "0123456789ABCDEF" : "0123456789abcdef";
  char text[8];
  int i;
  if (n < -8 || n > 8) n = 8;
  if (n < 0) n = -n;
  for (i = n; --i >= 0; w >>= 4) text[i] = digits[w & 15];
  lua_pushlstring(L, text, (size_t)n);
  return 1;
}

static const luaL_Reg bitfuncs[] = {
  {"tobit", bit_tobit},
  {"bnot", bit_bnot},
  {"bswap", bit_bswap},
  {"band", bit_band},
  {"bor", bit_bor},
  {"bxor", bit_bxor},
  {"lshift", bit_lshift},
  {"rshift", bit_rshift},
  {"arshift", bit_arshift},
  {"rol", bit_rol},
  {"ror", bit_ror},
  {"tohex", bit_tohex},
  {NULL, NULL}
};

/* }====================================================== */


static void addwithhandler (lua_State *L, const char *name, lua_CFunction f) {
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, f, 1);
  lua_setfield(L, -2, name);
}


static const luaL_Reg funcs[] = {
  {"rediscall", newrediscall},
  {"raising", newraising},
  {"compile", compile},
  {"readonly", readonly},
  {"setup", setup},
  {"limit", limit},
  {"idle", idle},
  {"jsonset", jsonset},
  {"short", luaP_short},
  {"rest", rest},
  {"drop", drop},
  {"charge", charge},
  {NULL, NULL}
};


void luaP_open (lua_State *L) {
  lua_pushcfunction(L, errhandler);
  lua_newtable(L);
  luaL_register(L, NULL, funcs);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "errhandler");
  addwithhandler(L, "run", run);
  addwithhandler(L, "call", callfunction);
  addwithhandler(L, "load", loadlibrary);
  lua_newtable(L);
  luaL_register(L, NULL, bitfuncs);
  lua_setfield(L, -2, "bit");
  lua_setglobal(L, "__pantala");
  lua_pop(L, 1);
}
