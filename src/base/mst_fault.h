// mst_fault: named points where test builds make a call fail.
//
// `if (mst_fault("net.send")) ...` costs nothing in a release build. With -DMST_FAULTS a test arms
// one point by name and count, runs, and asks whether the point was met: failing call 1, 2, 3 ...
// until a run doesn't meet the point proves that every failure path was taken once. An armed point
// belongs to its thread; a forked child inherits it. errno is set to ENOMEM or to the errno the
// point was armed with.
#ifndef MST_FAULT_H
#define MST_FAULT_H

#ifdef MST_FAULTS
// mst_fault tells whether this very call must fail, and counts it.
int mst_fault(const char *point);
// mst_fault_arm makes call number `nth` (from 1) of `point` fail with sys_errno; nth = 0 disarms.
// Returns how often the last armed point was met. nth = -1 arms the first call of any thread (""
// disarms); returns whether the last point armed this way was met.
int mst_fault_arm(const char *point, int nth, int sys_errno);
#else
#define mst_fault(point) 0
#endif

#endif
