// coded: character vectors by dictionary: a number for each element, and the different strings.
//
// What is done with such a vector (its rows chosen, moved, grouped, put together) touches numbers
// only, and R's garbage collector, which looks at each element of other character vectors, looks
// at none. To R code it is a character vector: ALTREP makes its elements when they are asked for.
//
// The strings of a dictionary differ, none is NA, and all are ASCII or UTF-8: so two elements are
// equal if and only if their codes are. Codes begin at 1; NA_INTEGER is NA. R thread.
#ifndef MST_FFI_CODED_H
#define MST_FFI_CODED_H

#include "ffi/value/value.h"
#include "shuffle/key.h"

// ---- dictionary.c

// A dictionary is an external pointer; the caller protects what it gives and what it is given.
// ffi_dictionary_of gives the one with these strings, which is the same as long as it lives. These
// may be any strings, as the levels of factors are: ffi_dictionary_is_sound tells whether they are
// as said above, given that they differ.
SEXP ffi_dictionary_of(SEXP strings);
// ffi_dictionary_recent gives the same one, and keeps it until ffi_dictionary_trim, which leaves
// the last few, or ffi_dictionary_forget: parts have the same levels, which are hashed once for all
// of them.
SEXP ffi_dictionary_recent(SEXP strings);
void ffi_dictionary_trim(void);
void ffi_dictionary_forget(void);
int ffi_dictionary_is_sound(SEXP dictionary);
int ffi_dictionary_is_of(SEXP dictionary, SEXP strings);
R_xlen_t ffi_dictionary_size(SEXP dictionary);
// ffi_dictionary_strings gives them as a character vector, which it makes where there is none yet;
// ffi_dictionary_packed as bytes, in the form of segments, NULL if they have no such form.
SEXP ffi_dictionary_strings(SEXP dictionary);
SEXP ffi_dictionary_packed(SEXP dictionary);
// ffi_dictionary_text gives the string with a code, of a sound one. It is valid until
// ffi_dictionary_keep releases the segment that the strings were read from.
struct mst_key_text ffi_dictionary_text(SEXP dictionary, int code);
void ffi_dictionary_keep(SEXP dictionary);
// ffi_dictionary_texts gives all strings of a sound one as keys, with their hashes; they live as
// long as the dictionary. May allocate.
const struct mst_key_text *ffi_dictionary_texts(SEXP dictionary,
                                                const uint64_t **hashes);
// ffi_dictionary_packed_of gives one with these n strings, which differ and are UTF-8. R's strings
// aren't made before they are asked for.
SEXP ffi_dictionary_packed_of(const struct mst_key_text *texts, size_t n);
// ffi_dictionary_number gives a number made of the strings: text of R.
SEXP ffi_dictionary_number(SEXP dictionary);
// ffi_dictionary_out gives a list that stands for a dictionary in messages and blocks;
// ffi_dictionary_in the dictionary that it stands for: the one with this number, if it is known
// here, so that there is one, however many messages bring it.
SEXP ffi_dictionary_out(SEXP dictionary);
SEXP ffi_dictionary_in(SEXP out);

// Where there are so many rows to a string, a dictionary saves memory and time.
#define FFI_CODED_ROWS 2
// Factors with fewer levels keep these in each message.
#define FFI_LEVELS_MIN 32

// ---- coded.c

void ffi_coded_register(DllInfo *dll);
// ffi_is_coded: is x such a vector, and not yet expanded?
int ffi_is_coded(SEXP x);
// ffi_coded_dictionary and ffi_coded_codes give its parts, which nobody may change.
SEXP ffi_coded_dictionary(SEXP x);
const int *ffi_coded_codes(SEXP x);
// ffi_coded_new makes one; codes are an integer vector, checked here, that nobody changes any more.
// The caller protects both.
SEXP ffi_coded_new(SEXP codes, SEXP dictionary);
// ffi_coded_number numbers the different strings of any character vector, of which there are at
// most `most`, and fills in the codes. Gives their count, and the strings, in memory of R_alloc.
size_t ffi_coded_number(SEXP x, size_t most, int *codes, SEXP **strings);
// ffi_coded_plain gives the ordinary vector.
SEXP ffi_coded_plain(SEXP x);
// ffi_coded_take gives the elements at n places, which are in range or NA_INTEGER.
SEXP ffi_coded_take(SEXP x, const int *at, R_xlen_t n);
// ffi_coded_bind (coded_bind.c) appends vectors without attributes to each other, of which at least
// one is coded.
SEXP ffi_coded_bind(SEXP columns, R_xlen_t n);
// ffi_coded_bind_packed does so where all are coded or empty, and makes no string: rows that only
// move on don't need any.
SEXP ffi_coded_bind_packed(SEXP columns, R_xlen_t n);
// ffi_coded_shadow stands for x in one message: serialized it is list(codes, where). With codes
// NULL x is the strings of a dictionary. where: from ffi_dictionary_out, or a number, from 1, in
// the block's list of dictionaries. The caller protects all.
SEXP ffi_coded_shadow(SEXP x, SEXP codes, SEXP where);
// ffi_coded_read_with sets the list of dictionaries to which the block that is read next refers;
// the caller keeps it.
void ffi_coded_read_with(SEXP dictionaries);

// ---- entry points

// ffi_coded gives x by dictionary if that takes clearly less memory, else x itself.
SEXP ffi_coded(SEXP x);
// ffi_coded_all (coded_bind.c) gives x by dictionary, if it can, whatever memory that takes.
SEXP ffi_coded_all(SEXP x);
int ffi_can_be_coded(SEXP x);
// ffi_coded_by gives x, which ffi_can_be_coded, by dictionary; x itself if it has more than `most`
// different strings, or strings that can't be in one.
SEXP ffi_coded_by(SEXP x, size_t most);
// ffi_coded_head gives at most n elements of x, from the first on, and makes only these strings.
SEXP ffi_coded_head(SEXP x, SEXP n);
// ffi_coded_parts gives list(codes, strings), NULL if x isn't coded.
SEXP ffi_coded_parts(SEXP x);
// ffi_coded_join makes a column of codes, which must be the caller's alone, and a model: strings,
// or a factor without elements.
SEXP ffi_coded_join(SEXP codes, SEXP model);
// ffi_coded_expand gives the ordinary vector of a coded one, any other x itself.
SEXP ffi_coded_expand(SEXP x);
// ffi_coded_lend gives another vector of the same codes: what expands it leaves x as it is. With
// copy, a copy of any other x.
SEXP ffi_coded_lend(SEXP x, SEXP copy);
// ffi_coded_compact gives a coded x with a dictionary that suits its rows: x itself, one with the
// strings that it has, or the ordinary vector if that is no larger; any other x itself.
SEXP ffi_coded_compact(SEXP x);

#endif
