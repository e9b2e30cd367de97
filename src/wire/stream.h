// wire/stream: the kinds of streams that a link carries, see piece.h.
#ifndef MST_STREAM_H
#define MST_STREAM_H

enum mst_stream_class {
  MST_STREAM_CONTROL = 1, // small frames, which don't wait behind others
  MST_STREAM_DATA = 2,    // frames of any size
  MST_STREAM_OUTPUT = 3,  // what a process prints: to the sender of the ATTACH
  MST_STREAM_SEGMENT = 4  // shared memory: its bytes come from the sender
};

#endif
