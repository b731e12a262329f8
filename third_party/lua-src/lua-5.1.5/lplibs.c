/*
** The short ways of cjson, cmsgpack and struct: what scripts mostly give them,
** without the way into the host. All else - a mistake, a table that is neither a
** plain list nor a plain object, great depth or length, settings that were changed -
** goes to the host's function in the same frame, as if nothing had been done. So the
** texts of errors and the odd cases are in one place, crates/scripting/src/libs.
**
** 1. What a short way answers is what the host's function would, byte for byte.
** 2. Writers allocate nothing of Lua's before their bytes are whole: no collection
**    and no error comes between. The bytes lie in the state's `scratch'.
** 3. Readers hold no pointer but into their argument, which stays on the stack, and
**    read no byte at or behind `end' but the zero there.
** 4. Nothing recurses deeper than DEPTH.
** 5. Work is charged as it is done, also by who gives up: values, bytes, and the
**    slots of tables that are looked at, most of which may be empty. The host may end
**    the script there (luaP_tick), which changes nothing else of Lua's.
**
** Not part of Lua 5.1.5. Tests: crates/scripting/tests/libs_*.rs.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define lplibs_c
#define LUA_LIB

#include "lua.h"

#include "lapi.h"
#include "ldo.h"
#include "lobject.h"
#include "lstate.h"
#include "ltable.h"
#include "lpantala.h"

typedef unsigned char byte;
typedef unsigned long long word;

#define DEPTH	32
#define OUTPUT_BYTES_MAX	((size_t)512 << 20)
/* of `scratch', between two calls */
#define SCRATCH_BYTES_KEPT	((size_t)64 << 10)
/* what a byte of text may become in Lua's memory, at most: "[]," is a table */
#define BYTES_OF_BYTE	40
/* bytes that are as much work as an instruction, and slots of a table */
#define BYTES_CHARGED	16
#define SLOTS_CHARGED	8
/* work between two charges */
#define WORK_CHARGED	64


static void charge (lua_State *L, size_t *due, size_t work) {
  *due += work;
  if (*due >= WORK_CHARGED) {
    work = *due;
    *due = 0;
    lua_charge(L, work);
  }
}


/*
** {======================================================
** Bytes on their way out
** =======================================================
*/

typedef struct Out {
  lua_State *L;
  global_State *g;
  size_t len;
  size_t due;  /* work that is not charged yet */
} Out;


static char *grow (Out *o, size_t n) {
  global_State *g = o->g;
  size_t size = g->scratchsize;
  char *scratch;
  if (n > OUTPUT_BYTES_MAX || o->len > OUTPUT_BYTES_MAX - n) return NULL;
  if (size == 0) size = 1024;
  while (size - o->len < n) size *= 2;
  scratch = (char *)(*g->frealloc)(g->ud, g->scratch, g->scratchsize, size);
  if (scratch == NULL) return NULL;
  g->scratch = scratch;
  g->scratchsize = size;
  return scratch + o->len;
}


/* where `n' bytes more may be written, or NULL; `len' does not change */
static char *room (Out *o, size_t n) {
  if (n <= o->g->scratchsize - o->len) return o->g->scratch + o->len;
  return grow(o, n);
}


static int put (Out *o, const char *bytes, size_t n) {
  char *to = room(o, n);
  if (to == NULL) return 0;
  memcpy(to, bytes, n);
  o->len += n;
  return 1;
}


static int putbyte (Out *o, int c) {
  char *to = room(o, 1);
  if (to == NULL) return 0;
  *to = (char)c;
  o->len++;
  return 1;
}


/* the lowest `n' bytes, the highest first */
static int putword (Out *o, int tag, word w, int n) {
  char *to = room(o, 9);
  if (to == NULL) return 0;
  *to++ = (char)tag;
  o->len += 1 + n;
  while (n-- > 0) *to++ = (char)(w >> (8 * n));
  return 1;
}


void luaP_restscratch (global_State *g) {
  if (g->scratchsize > SCRATCH_BYTES_KEPT) luaP_freescratch(g);
}


void luaP_freescratch (global_State *g) {
  g->scratch = (char *)(*g->frealloc)(g->ud, g->scratch, g->scratchsize, 0);
  g->scratchsize = 0;
}


/* whether so many bytes more are far from the limit of memory */
static int fits (lua_State *L, size_t n) {
  global_State *g = G(L);
  return g->memlimit == 0 ||
         (g->totalbytes < g->memlimit && n < g->memlimit - g->totalbytes);
}


/* the bytes as a result; 0 where there may be no memory for them */
static int finish (lua_State *L, Out *o) {
  if (!fits(L, o->len + 1024)) return 0;
  lua_pushlstring(L, o->g->scratch, o->len);
  luaP_restscratch(o->g);
  lua_charge(L, o->due);
  return 1;
}


static Out begin (lua_State *L) {
  Out o;
  o.L = L;
  o.g = G(L);
  o.len = 0;
  o.due = 0;
  return o;
}

/* }====================================================== */


/* a double as gcc on x86-64 makes an integer of it */
static long long truncated (lua_Number n) {
  if (n >= -9223372036854775808.0 && n < 9223372036854775808.0) return (long long)n;
  return (long long)((word)1 << 63);
}


/*
** Whether a table is a list, all of it in its array part: how many elements, or -1.
** `*members': whether it has anything else.
*/
static int listlen (Out *o, const Table *t, int *members) {
  int n = 0;
  int i;
  *members = 0;
  charge(o->L, &o->due, ((size_t)t->sizearray + sizenode(t)) / SLOTS_CHARGED);
  while (n < t->sizearray && !ttisnil(&t->array[n])) n++;
  for (i = n; i < t->sizearray; i++)
    if (!ttisnil(&t->array[i])) return -1;
  for (i = 0; i < sizenode(t); i++)
    if (!ttisnil(gval(gnode(t, i)))) {
      *members = 1;
      break;
    }
  return n;
}


/*
** {======================================================
** cjson.encode
** =======================================================
*/

#define ONES	0x0101010101010101ULL
#define HIGHS	0x8080808080808080ULL
/* whether any of eight bytes is zero; is `c'; is less than `c' */
#define anyzero(w)	(((w) - ONES) & ~(w) & HIGHS)
#define anyis(w, c)	anyzero((w) ^ (ONES * (c)))
#define anyless(w, c)	(((w) - ONES * (c)) & ~(w) & HIGHS)

static word eight (const char *bytes) {
  word w;
  memcpy(&w, bytes, sizeof(w));
  return w;
}


/* writes one byte of a string as JSON has it */
static char *escaped (char *to, byte c) {
  static const char digits[] = "0123456789abcdef";
  char letter;
  switch (c) {
    case '"': case '\\': case '/': letter = (char)c; break;
    case '\b': letter = 'b'; break;
    case '\t': letter = 't'; break;
    case '\n': letter = 'n'; break;
    case '\f': letter = 'f'; break;
    case '\r': letter = 'r'; break;
    default:
      if (c >= 0x20 && c != 0x7f) {
        *to++ = (char)c;
        return to;
      }
      memcpy(to, "\\u00", 4);
      to[4] = digits[c >> 4];
      to[5] = digits[c & 15];
      return to + 6;
  }
  *to++ = '\\';
  *to++ = letter;
  return to;
}


static int jsonstring (Out *o, const TString *ts) {
  const char *at = getstr(ts);
  const char *end = at + ts->tsv.len;
  char *first, *to;
  if (ts->tsv.len > OUTPUT_BYTES_MAX / 8) return 0;
  charge(o->L, &o->due, ts->tsv.len / BYTES_CHARGED);
  first = to = room(o, 6 * ts->tsv.len + 2);
  if (to == NULL) return 0;
  *to++ = '"';
  while (end - at >= 8) {
    word w = eight(at);
    if (anyless(w, 0x20) | anyis(w, '"') | anyis(w, '\\') | anyis(w, '/') | anyis(w, 0x7f)) {
      int i;
      for (i = 0; i < 8; i++) to = escaped(to, (byte)*at++);
    }
    else {
      memcpy(to, &w, 8);
      to += 8;
      at += 8;
    }
  }
  while (at < end) to = escaped(to, (byte)*at++);
  *to++ = '"';
  o->len += (size_t)(to - first);
  return 1;
}


static char *decimal (char *to, word n) {
  char digits[24];
  char *at = digits + sizeof(digits);
  size_t len;
  do *--at = (char)('0' + n % 10); while ((n /= 10) > 0);
  len = (size_t)(digits + sizeof(digits) - at);
  memcpy(to, at, len);
  return to + len;
}


/*
** "%.14g", where whole numbers and those of up to five decimals, which are the
** nearest to some k/10^5 with at most 14 digits, need no sprintf.
*/
static int jsonnumber (Out *o, lua_Number n) {
  char *first, *to;
  lua_Number size = (n < 0) ? -n : n;
  word whole;
  if (!(size < 1e300)) return 0;  /* not finite, or nearly so */
  first = to = room(o, 40);
  if (to == NULL) return 0;
  if (size < 1e14 && n != 0 && (lua_Number)(whole = (word)size) == size) {
    if (n < 0) *to++ = '-';
    to = decimal(to, whole);
  }
  else if (size < 1e9 && size >= 1e-4 &&
           (lua_Number)(whole = (word)(size * 1e5 + 0.5)) / 1e5 == size) {
    word part = whole % 100000;
    int i;
    if (n < 0) *to++ = '-';
    to = decimal(to, whole / 100000);
    *to++ = '.';
    for (i = 4; i >= 0; i--, part /= 10) to[i] = (char)('0' + part % 10);
    for (to += 5; to[-1] == '0'; to--) ;
  }
  else
    to += sprintf(to, "%.14g", n);
  o->len += (size_t)(to - first);
  return 1;
}


static int jsonvalue (Out *o, const TValue *v, int depth);


static int jsontable (Out *o, const Table *t, int depth) {
  int members, i;
  int count = 0;
  int n = listlen(o, t, &members);
  if (depth > DEPTH || n < 0 || (n > 0 && members)) return 0;
  if (n > 0) {
    for (i = 0; i < n; i++)
      if (!putbyte(o, i == 0 ? '[' : ',') || !jsonvalue(o, &t->array[i], depth)) return 0;
    return putbyte(o, ']');
  }
  if (!putbyte(o, '{')) return 0;
  for (i = 0; i < sizenode(t); i++) {
    const Node *node = gnode(t, i);
    if (ttisnil(gval(node))) continue;
    if (!ttisstring(key2tval(node))) return 0;
    if (count++ > 0 && !putbyte(o, ',')) return 0;
    if (!jsonstring(o, rawtsvalue(key2tval(node))) || !putbyte(o, ':') ||
        !jsonvalue(o, gval(node), depth))
      return 0;
  }
  return putbyte(o, '}');
}


static int jsonvalue (Out *o, const TValue *v, int depth) {
  charge(o->L, &o->due, 1);
  switch (ttype(v)) {
    case LUA_TSTRING: return jsonstring(o, rawtsvalue(v));
    case LUA_TNUMBER: return jsonnumber(o, nvalue(v));
    case LUA_TBOOLEAN: return bvalue(v) ? put(o, "true", 4) : put(o, "false", 5);
    case LUA_TTABLE: return jsontable(o, hvalue(v), depth + 1);
    case LUA_TLIGHTUSERDATA: return pvalue(v) == NULL && put(o, "null", 4);
    default: return 0;
  }
}


static int json_encode (lua_State *L) {
  Out o = begin(L);
  if (G(L)->jsonset || lua_gettop(L) != 1 || !jsonvalue(&o, L->base, 0) || !finish(L, &o))
    return luaP_host(L);
  return 1;
}

/* }====================================================== */


/*
** {======================================================
** cjson.decode
** =======================================================
*/

typedef struct In {
  lua_State *L;
  const char *at;
  const char *end;
  int depth;
  size_t due;  /* as in Out */
} In;


static int jsonread (In *in);


static int next (In *in) {
  while (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r') in->at++;
  return (byte)*in->at;
}


static int hex4 (const char *at) {
  int value = 0;
  int i;
  for (i = 0; i < 4; i++) {
    int c = (byte)at[i];
    if (c >= '0' && c <= '9') c -= '0';
    else if (c >= 'a' && c <= 'f') c -= 'a' - 10;
    else if (c >= 'A' && c <= 'F') c -= 'A' - 10;
    else return -1;  /* also at the zero behind the end */
    value = value << 4 | c;
  }
  return value;
}


static char *utf8 (char *to, int c) {
  if (c < 0x80) *to++ = (char)c;
  else {
    if (c < 0x800) *to++ = (char)(0xc0 | c >> 6);
    else {
      if (c < 0x10000) *to++ = (char)(0xe0 | c >> 12);
      else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
      }
      *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
  }
  return to;
}


/* what follows a backslash and `u' at `*at', which is moved behind it; -1: nothing */
static int codepoint (const char **at) {
  int low;
  int c = hex4(*at);
  if (c < 0) return -1;
  *at += 4;
  if ((c & 0xf800) != 0xd800) return c;
  if ((c & 0x400) || (*at)[0] != '\\' || (*at)[1] != 'u') return -1;
  low = hex4(*at + 2);
  if (low < 0 || (low & 0xfc00) != 0xdc00) return -1;
  *at += 6;
  return 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
}


/* pushes a string with escapes in it, of which `start' is the first byte */
static int unescaped (In *in, const char *start) {
  Out o = begin(in->L);
  const char *at = start;
  char *to = room(&o, (size_t)(in->end - start));  /* it becomes no longer */
  int c;
  if (to == NULL) return 0;
  while (*at != '"') {
    if (*at == '\0') return 0;
    if (*at != '\\') {
      *to++ = *at++;
      continue;
    }
    c = at[1];
    at += 2;
    switch (c) {
      case '"': case '\\': case '/': break;
      case 'b': c = '\b'; break;
      case 't': c = '\t'; break;
      case 'n': c = '\n'; break;
      case 'f': c = '\f'; break;
      case 'r': c = '\r'; break;
      case 'u':
        c = codepoint(&at);
        if (c < 0) return 0;
        to = utf8(to, c);
        continue;
      default: return 0;
    }
    *to++ = (char)c;
  }
  in->at = at + 1;
  lua_pushlstring(in->L, o.g->scratch, (size_t)(to - o.g->scratch));
  return 1;
}


static int jsontext (In *in) {
  const char *start = in->at + 1;
  const char *at = start;
  while (in->end - at >= 8) {
    word w = eight(at);
    if (anyis(w, '"') | anyis(w, '\\') | anyzero(w)) break;
    at += 8;
  }
  while (*at != '"' && *at != '\\' && *at != '\0') at++;
  if (*at == '\\') return unescaped(in, start);
  if (*at == '\0') return 0;
  lua_pushlstring(in->L, start, (size_t)(at - start));
  in->at = at + 1;
  return 1;
}


#define isdigit_(c)	((c) >= '0' && (c) <= '9')

/* JSON's own numbers; the other ones of strtod are left to the host */
static int jsonfigure (In *in) {
  static const lua_Number tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *at = in->at;
  word sum = 0;
  int digits = 0;
  int power = 0;
  int negative = (*at == '-');
  const char *first = at += negative;
  lua_Number n;
  for (; isdigit_(*at); at++, digits++)
    if (digits < 18) sum = sum * 10 + (word)(*at - '0');
  if (digits == 0 || (*first == '0' && digits > 1)) return 0;
  if (*at == '.') {
    const char *point = at++;
    for (; isdigit_(*at); at++, digits++)
      if (digits < 18) sum = sum * 10 + (word)(*at - '0');
    if (at - point == 1 || at - point > 1000) return 0;
    power = -(int)(at - point - 1);
  }
  if (*at == 'e' || *at == 'E') {
    int sign = (at[1] == '-') ? -1 : 1;
    int e = 0;
    at += (at[1] == '-' || at[1] == '+') ? 2 : 1;
    if (!isdigit_(*at)) return 0;
    for (; isdigit_(*at); at++)
      if (e < 10000) e = e * 10 + (*at - '0');
    power += sign * e;
  }
  if (*at == 'x' || *at == 'X') return 0;
  if (digits <= 15 && power >= -22 && power <= 22) {  /* both exact: rounded once */
    n = (power < 0) ? (lua_Number)sum / tens[-power] : (lua_Number)sum * tens[power];
    if (negative) n = -n;
  }
  else {
    char *end;
    n = strtod(in->at, &end);
    if (end != at) return 0;
  }
  in->at = at;
  lua_pushnumber(in->L, n);
  return 1;
}


static int jsonword (In *in, const char *text, size_t len) {
  if ((size_t)(in->end - in->at) < len || memcmp(in->at, text, len) != 0) return 0;
  in->at += len;
  return 1;
}


/* a table's members behind its bracket, up to the closing one */
static int jsonmembers (In *in, int close) {
  lua_State *L = in->L;
  int place;
  in->at++;
  if (++in->depth > DEPTH || !lua_checkstack(L, 8)) return 0;
  lua_newtable(L);
  if (next(in) == close) {
    in->at++;
    in->depth--;
    return 1;
  }
  for (place = 1; ; place++) {
    int c;
    if (close == '}') {
      if (next(in) != '"' || !jsontext(in) || next(in) != ':') return 0;
      in->at++;
    }
    if (!jsonread(in)) return 0;
    if (close == '}') lua_rawset(L, -3);
    else lua_rawseti(L, -2, place);
    c = next(in);
    if (c != close && c != ',') return 0;
    in->at++;
    if (c == close) break;
  }
  in->depth--;
  return 1;
}


/* pushes the value at `at' */
static int jsonread (In *in) {
  lua_State *L = in->L;
  int c = next(in);
  charge(L, &in->due, 1);
  switch (c) {
    case '{': return jsonmembers(in, '}');
    case '[': return jsonmembers(in, ']');
    case '"': return jsontext(in);
    case 't': case 'f':
      if (!(c == 't' ? jsonword(in, "true", 4) : jsonword(in, "false", 5))) return 0;
      lua_pushboolean(L, c == 't');
      return 1;
    case 'n':
      if (!jsonword(in, "null", 4)) return 0;
      lua_pushlightuserdata(L, NULL);
      return 1;
    default: return (c == '-' || isdigit_(c)) ? jsonfigure(in) : 0;
  }
}


/* the argument's bytes, if they can not make too much */
static int bytesof (lua_State *L, In *in) {
  const TValue *arg = L->base;
  if (L->top == arg || !ttisstring(arg)) return 0;
  in->L = L;
  in->at = svalue(arg);
  in->end = in->at + tsvalue(arg)->len;
  in->depth = 0;
  in->due = tsvalue(arg)->len / BYTES_CHARGED;
  return tsvalue(arg)->len < OUTPUT_BYTES_MAX / BYTES_OF_BYTE &&
         fits(L, tsvalue(arg)->len * BYTES_OF_BYTE);
}


static int json_decode (lua_State *L) {
  In in;
  if (G(L)->jsonset || lua_gettop(L) != 1 || !bytesof(L, &in)) return luaP_host(L);
  if (!jsonread(&in) || next(&in) != 0 || in.at != in.end) {
    lua_settop(L, 1);
    return luaP_host(L);
  }
  luaP_restscratch(G(L));
  lua_charge(L, in.due);
  return 1;
}

/* }====================================================== */


/*
** {======================================================
** cmsgpack.pack
** =======================================================
*/

/* tables within tables: a deeper one is nil */
#define PACK_DEPTH	16

static int packint (Out *o, long long n) {
  if (n >= -32 && n <= 0x7f) return putbyte(o, (int)n);
  if (n > 0) {
    if (n <= 0xff) return putword(o, 0xcc, (word)n, 1);
    if (n <= 0xffff) return putword(o, 0xcd, (word)n, 2);
    if (n <= 0xffffffffLL) return putword(o, 0xce, (word)n, 4);
    return putword(o, 0xcf, (word)n, 8);
  }
  if (n >= -0x80) return putword(o, 0xd0, (word)n, 1);
  if (n >= -0x8000) return putword(o, 0xd1, (word)n, 2);
  if (n >= -0x80000000LL) return putword(o, 0xd2, (word)n, 4);
  return putword(o, 0xd3, (word)n, 8);
}


static int packnumber (Out *o, lua_Number n) {
  long long whole = truncated(n);
  word w = 0;
  if ((lua_Number)whole == n) return packint(o, whole);
  if ((lua_Number)(float)n == n) {
    float f = (float)n;
    unsigned int bits;
    memcpy(&bits, &f, sizeof(bits));
    return putword(o, 0xca, bits, 4);
  }
  memcpy(&w, &n, sizeof(n));
  return putword(o, 0xcb, w, 8);
}


static int packstring (Out *o, const TString *ts) {
  size_t len = ts->tsv.len;
  int ok;
  charge(o->L, &o->due, len / BYTES_CHARGED);
  if (len <= 31) ok = putbyte(o, 0xa0 | (int)len);
  else if (len <= 0xff) ok = putword(o, 0xd9, len, 1);
  else if (len <= 0xffff) ok = putword(o, 0xda, len, 2);
  else ok = len <= 0xffffffff && putword(o, 0xdb, len, 4);
  return ok && put(o, getstr(ts), len);
}


static int packhead (Out *o, int small, int tag, int n) {
  if (n <= 15) return putbyte(o, small | n);
  if (n <= 0xffff) return putword(o, tag, (word)n, 2);
  return putword(o, tag + 1, (word)n, 4);
}


static int packvalue (Out *o, const TValue *v, int depth);


static int packtable (Out *o, const Table *t, int depth) {
  int members, i;
  int count = 0;
  int n = listlen(o, t, &members);
  if (n < 0 || (n > 0 && members)) return 0;
  if (!members) {
    if (!packhead(o, 0x90, 0xdc, n)) return 0;
    for (i = 0; i < n; i++)
      if (!packvalue(o, &t->array[i], depth)) return 0;
    return 1;
  }
  for (i = 0; i < sizenode(t); i++) {
    const Node *node = gnode(t, i);
    if (ttisnil(gval(node))) continue;
    if (!ttisstring(key2tval(node))) return 0;
    count++;
  }
  if (!packhead(o, 0x80, 0xde, count)) return 0;
  for (i = 0; i < sizenode(t); i++) {
    const Node *node = gnode(t, i);
    if (ttisnil(gval(node))) continue;
    if (!packstring(o, rawtsvalue(key2tval(node))) || !packvalue(o, gval(node), depth))
      return 0;
  }
  return 1;
}


static int packvalue (Out *o, const TValue *v, int depth) {
  charge(o->L, &o->due, 1);
  switch (ttype(v)) {
    case LUA_TSTRING: return packstring(o, rawtsvalue(v));
    case LUA_TNUMBER: return packnumber(o, nvalue(v));
    case LUA_TBOOLEAN: return putbyte(o, bvalue(v) ? 0xc3 : 0xc2);
    case LUA_TTABLE:
      if (depth < PACK_DEPTH) return packtable(o, hvalue(v), depth + 1);
      /* FALLTHROUGH */
    default: return putbyte(o, 0xc0);
  }
}


static int msgpack_pack (lua_State *L) {
  Out o = begin(L);
  StkId arg;
  if (L->base == L->top) return luaP_host(L);
  for (arg = L->base; arg < L->top; arg++)
    if (!packvalue(&o, arg, 0)) return luaP_host(L);
  return finish(L, &o) ? 1 : luaP_host(L);
}

/* }====================================================== */


/*
** {======================================================
** cmsgpack.unpack
** =======================================================
*/

/* more values are left to the host */
#define UNPACK_VALUES	200

/* the next `n' bytes, the highest first */
static int getword (In *in, int n, word *w) {
  if (in->end - in->at < n) return 0;
  for (*w = 0; n > 0; n--) *w = *w << 8 | (byte)*in->at++;
  return 1;
}


static int unpacknumber (In *in, int n, int is_signed) {
  word w;
  if (!getword(in, n, &w)) return 0;
  if (is_signed && n < 8 && (w >> (8 * n - 1)) != 0) w |= ~(word)0 << (8 * n);
  /* the upper half of 64 bits is negative, as in the reference */
  lua_pushnumber(in->L, (lua_Number)(long long)w);
  return 1;
}


static int unpackfloat (In *in, int n) {
  word w;
  if (!getword(in, n, &w)) return 0;
  if (n == 4) {
    unsigned int bits = (unsigned int)w;
    float f;
    memcpy(&f, &bits, sizeof(f));
    lua_pushnumber(in->L, (lua_Number)f);
  }
  else {
    lua_Number d;
    memcpy(&d, &w, sizeof(d));
    lua_pushnumber(in->L, d);
  }
  return 1;
}


static int unpackstring (In *in, word len) {
  if (len > (word)(in->end - in->at)) return 0;
  lua_pushlstring(in->L, in->at, (size_t)len);
  in->at += len;
  return 1;
}


static int unpackvalue (In *in);


static int unpacktable (In *in, word count, int is_map) {
  lua_State *L = in->L;
  word i;
  /* each value has a byte or more */
  if (count > (word)(in->end - in->at)) return 0;
  if (++in->depth > DEPTH || !lua_checkstack(L, 8)) return 0;
  lua_newtable(L);
  for (i = 1; i <= count; i++) {
    if (!unpackvalue(in)) return 0;
    if (!is_map) {
      lua_rawseti(L, -2, (int)i);
      continue;
    }
    if (!ttisstring(L->top - 1)) {  /* not nil, and no NaN */
      if (!ttisnumber(L->top - 1) || nvalue(L->top - 1) != nvalue(L->top - 1)) return 0;
    }
    if (!unpackvalue(in)) return 0;
    lua_rawset(L, -3);
  }
  in->depth--;
  return 1;
}


static int unpackvalue (In *in) {
  lua_State *L = in->L;
  int tag;
  word w;
  charge(L, &in->due, 1);
  if (in->at == in->end) return 0;
  tag = (byte)*in->at++;
  if (tag <= 0x7f || tag >= 0xe0) {
    lua_pushnumber(L, (lua_Number)(signed char)tag);
    return 1;
  }
  if (tag <= 0x8f) return unpacktable(in, tag & 15, 1);
  if (tag <= 0x9f) return unpacktable(in, tag & 15, 0);
  if (tag <= 0xbf) return unpackstring(in, tag & 31);
  switch (tag) {
    case 0xc0: lua_pushnil(L); return 1;
    case 0xc2: case 0xc3: lua_pushboolean(L, tag & 1); return 1;
    case 0xca: return unpackfloat(in, 4);
    case 0xcb: return unpackfloat(in, 8);
    case 0xcc: case 0xcd: case 0xce: case 0xcf:
      return unpacknumber(in, 1 << (tag & 3), 0);
    case 0xd0: case 0xd1: case 0xd2: case 0xd3:
      return unpacknumber(in, 1 << (tag & 3), 1);
    case 0xd9: case 0xda: case 0xdb:
      return getword(in, 1 << (tag - 0xd9), &w) && unpackstring(in, w);
    case 0xdc: case 0xdd:
      return getword(in, 2 << (tag & 1), &w) && unpacktable(in, w, 0);
    case 0xde: case 0xdf:
      return getword(in, 2 << (tag & 1), &w) && unpacktable(in, w, 1);
    default: return 0;
  }
}


static int msgpack_unpack (lua_State *L) {
  In in;
  int n = 0;
  if (lua_gettop(L) != 1 || !bytesof(L, &in)) return luaP_host(L);
  while (in.at < in.end)
    if (n == UNPACK_VALUES || !lua_checkstack(L, 2) || !unpackvalue(&in)) {
      lua_settop(L, 1);
      return luaP_host(L);
    }
    else n++;
  lua_charge(L, in.due);
  return n;
}

/* }====================================================== */


/*
** {======================================================
** struct: formats of letters that need no alignment
** =======================================================
*/

/* the number behind a letter, or `otherwise'; -1: two digits or more */
static int digitof (const char **f, int otherwise) {
  int n = otherwise;
  if (isdigit_(**f)) {
    n = *(*f)++ - '0';
    if (isdigit_(**f)) n = -1;
  }
  return n;
}


/* bytes of the integer that `c' stands for, 0: it is none */
static int intsize (int c, const char **f) {
  int n;
  switch (c) {
    case 'b': case 'B': return 1;
    case 'h': case 'H': return 2;
    case 'l': case 'L': case 'T': return 8;
    case 'i': case 'I':
      n = digitof(f, 4);
      return (n >= 1 && n <= 8) ? n : 0;
    default: return 0;
  }
}


static int structbytes (Out *o, word w, int n, int big) {
  char *to = room(o, 8);
  int i;
  if (to == NULL) return 0;
  for (i = 0; i < n; i++) to[big ? n - 1 - i : i] = (char)(w >> (8 * i));
  o->len += (size_t)n;
  return 1;
}


/* an integer of the reference: what is not negative may have 64 bits */
static word structword (lua_Number n) {
  const lua_Number half = 9223372036854775808.0;
  if (n >= half) return (word)truncated(n - half) ^ (word)1 << 63;
  return (word)truncated(n);
}


static int structtext (Out *o, int c, const char **f, const TValue *arg) {
  int n = (c == 'c') ? digitof(f, 1) : 0;
  size_t len;
  if (!ttisstring(arg) || n < 0 || (size_t)n > tsvalue(arg)->len) return 0;
  len = (n == 0) ? tsvalue(arg)->len : (size_t)n;
  charge(o->L, &o->due, len / BYTES_CHARGED);
  return put(o, svalue(arg), len) && (c == 'c' || putbyte(o, 0));
}


static int structnumber (Out *o, int c, const char **f, const TValue *arg, int big) {
  int size = (c == 'f' || c == 'd') ? 0 : intsize(c, f);
  word w = 0;
  if (!ttisnumber(arg)) return 0;
  if (c == 'f') {
    float n = (float)nvalue(arg);
    unsigned int bits;
    memcpy(&bits, &n, sizeof(bits));
    return structbytes(o, bits, 4, big);
  }
  if (c == 'd') {
    memcpy(&w, &nvalue(arg), sizeof(w));
    return structbytes(o, w, 8, big);
  }
  return size > 0 && structbytes(o, structword(nvalue(arg)), size, big);
}


static int structpack (lua_State *L, Out *o) {
  const char *f;
  const TValue *arg = L->base;
  int big = 0;
  if (arg == L->top || !ttisstring(arg)) return 0;
  f = svalue(arg++);
  while (*f != '\0') {
    int c = *f++;
    charge(L, &o->due, 1);
    if (c == '<' || c == '>') big = (c == '>');
    else if (c == 'x') {
      if (!putbyte(o, 0)) return 0;
    }
    else if (c != ' ') {
      if (arg >= L->top) return 0;
      if (!((c == 'c' || c == 's') ? structtext(o, c, &f, arg)
                                   : structnumber(o, c, &f, arg, big)))
        return 0;
      arg++;
    }
  }
  return 1;
}


static int struct_pack (lua_State *L) {
  Out o = begin(L);
  if (!structpack(L, &o) || !room(&o, 1) || !finish(L, &o)) return luaP_host(L);
  return 1;
}


static word structget (In *in, int n, int big) {
  word w = 0;
  int i;
  for (i = 0; i < n; i++) w = w << 8 | (byte)in->at[big ? i : n - 1 - i];
  in->at += n;
  return w;
}


static int structread (In *in, int c, const char **f, int big) {
  lua_State *L = in->L;
  ptrdiff_t left = in->end - in->at;
  if (c == 'c') {
    int n = digitof(f, 1);
    if (n <= 0 || n > left) return 0;
    lua_pushlstring(L, in->at, (size_t)n);
    in->at += n;
  }
  else if (c == 's') {
    const char *zero = (const char *)memchr(in->at, 0, (size_t)left);
    if (zero == NULL) return 0;
    charge(L, &in->due, (size_t)(zero - in->at) / BYTES_CHARGED);
    lua_pushlstring(L, in->at, (size_t)(zero - in->at));
    in->at = zero + 1;
  }
  else if (c == 'f' || c == 'd') {
    int n = (c == 'f') ? 4 : 8;
    word w;
    if (left < n) return 0;
    w = structget(in, n, big);
    if (n == 8) {
      lua_Number d;
      memcpy(&d, &w, sizeof(d));
      lua_pushnumber(L, d);
    }
    else {
      unsigned int bits = (unsigned int)w;
      float single;
      memcpy(&single, &bits, sizeof(single));
      lua_pushnumber(L, (lua_Number)single);
    }
  }
  else {
    int n = intsize(c, f);
    word w;
    if (n == 0 || left < n) return 0;
    w = structget(in, n, big);
    if (c < 'a')
      lua_pushnumber(L, (lua_Number)w);
    else {
      if (n < 8 && (w >> (8 * n - 1)) != 0) w |= ~(word)0 << (8 * n);
      lua_pushnumber(L, (lua_Number)(long long)w);
    }
  }
  return 1;
}


/* the results, or -1 */
static int structunpack (lua_State *L) {
  In in;
  const char *f, *first;
  int n = 0;
  int big = 0;
  if (lua_gettop(L) < 2 || lua_gettop(L) > 3) return -1;
  if (!ttisstring(L->base) || !ttisstring(L->base + 1)) return -1;
  f = svalue(L->base);
  in.L = L;
  in.due = 0;
  first = in.at = svalue(L->base + 1);
  in.end = in.at + tsvalue(L->base + 1)->len;
  if (lua_gettop(L) == 3) {
    lua_Number start;
    if (!ttisnumber(L->base + 2)) return -1;
    start = nvalue(L->base + 2);
    if (!(start >= 1 && start <= (lua_Number)(in.end - in.at) + 1)) return -1;
    in.at += (size_t)start - 1;
  }
  while (*f != '\0') {
    int c = *f++;
    charge(L, &in.due, 1);
    if (c == '<' || c == '>') big = (c == '>');
    else if (c == 'x') {
      if (in.at == in.end) return -1;
      in.at++;
    }
    else if (c != ' ') {
      if (n == UNPACK_VALUES || !lua_checkstack(L, 3) || !structread(&in, c, &f, big))
        return -1;
      n++;
    }
  }
  lua_pushnumber(L, (lua_Number)(in.at - first + 1));
  lua_charge(L, in.due);
  return n + 1;
}


static int struct_unpack (lua_State *L) {
  int args = lua_gettop(L);
  int n = structunpack(L);
  if (n > 0) return n;
  lua_settop(L, args);
  return luaP_host(L);
}

/* }====================================================== */


/*
** short(name, f): `f', a function of the host, with the short way of this name before
** it. What the host keeps with it is its one upvalue.
*/
int luaP_short (lua_State *L) {
  static const struct {
    const char *name;
    lua_CFunction f;
  } ways[] = {
    {"cjson.encode", json_encode},
    {"cjson.decode", json_decode},
    {"cmsgpack.pack", msgpack_pack},
    {"cmsgpack.unpack", msgpack_unpack},
    {"struct.pack", struct_pack},
    {"struct.unpack", struct_unpack},
  };
  const char *name = lua_tostring(L, 1);
  size_t i;
  for (i = 0; i < sizeof(ways)/sizeof(ways[0]); i++)
    if (name != NULL && strcmp(name, ways[i].name) == 0 && lua_getupvalue(L, 2, 1) != NULL) {
      lua_pushcclosure(L, ways[i].f, 1);
      return 1;
    }
  lua_settop(L, 2);
  return 1;
}
