/* stream.pml - sidestep's per-connection stream protocol (attach / ring / retreat / close), for spin.
 *
 * One direction d:  Sender(d) + ABg(d,l)  (end A: application + library; A's link handler, one per link l)
 *                   -> kernel TCP k[d]; link ab/ba; ring ->
 *                   Reader(d) + BBg(d,l)  (end B: the application thread inside its read; B's link handler).
 * ND=2 runs both directions of a connection over the same links (shared deaths; each end may exec).
 * Each direction has its own link FIFOs: fewer ordering guarantees than one RC QP gives, so a superset of behaviours.
 *
 * The model is acyclic: every step uses up a bounded budget.  So "no invalid end state" + the assertions at the
 * end ARE the liveness property (every accepted byte is delivered, everybody terminates).  Voluntary events
 * (retreat, link death, exec) come out of budgets chosen first, which may be 0, so they never hide a wait.
 *
 * The model as it stands is the FIXED protocol.  Each -DNO_xxx takes one rule away (run.sh, PROTOCOL.md):
 *   NO_B0       a record is told from raw bytes by the nonce alone: a prefix makes B wait for more
 *   NO_DELAY    B answers SWITCHED as soon as it has noted N, not only once it has delivered everything up to N
 *   NO_EPOCH    link control messages carry no (checked) epoch number
 *   NO_RELEASE  A may attach again on the same link/ring without RELEASED
 *   NO_LATCH    K is re-read from the credit when the resend starts (not latched with the RESUME record)
 *   NO_REFUSE   B notes a SWITCH while its own rx is still in an older epoch, or when N is already behind it
 *   NO_COUNT    B's kernel position leaves record and dropped bytes out
 *   NO_ABANDON  A, retreating on a live link before its SWITCH record is out, sends RESUME there and then
 *   NO_FREE     B recycles the ring as soon as it has left the epoch itself
 *   NO_FINCLR   a link FIN means EOF once the ring is empty, whatever the state (mutant inconclusive, see PROTOCOL.md, section 4)
 *   NO_HOLD     A closes the kernel socket right after the link FIN (does not wait for the last CREDIT)
 *   NO_RSFIN    A ends an orderly close with a bare kernel FIN in state ON (no RESUME(P,P) before it)
 *   NO_LINGER   (CRASH verbs) A's death between SWITCH and record, or in the resend of an ABANDON, is a FIN, not a RST
 *   OLD_LINGER  (CRASH SOFT) the old rule: SO_LINGER{1,0} in SWITCHING and in every PUMP (the RST discards kernel bytes)
 *   NO_SHARED   (CRASH SOFT) B takes a kernel FIN in RAW/NOTED/READY at face value (does not look into the shared slot)
 *   NO_LEFT     (CRASH verbs) B does not count the P-K resent bytes announced by RESUME
 *   NO_BAR      (CRASH EXEC) B execs as soon as it is RAW with drop=0, though A is SWITCHING or still resending
 *   NO_VERDICT  (CRASH) on a kernel FIN in state ON, B drains what is in the ring now and says EOF
 *   NO_REREAD   (CRASH SOFT) B's verdict takes the produced count of the messages it has seen, not the ring memory's
 *   NO_REPEAT   (EXEC) B asks to retreat only once, when it decides to; a SWITCH that arrives later is noted
 *   NO_NOTICE   (EXEC) a half-dead link: A's end never notices the death (no PING)
 * CHECKJ (CRASH SOFT): also assert that section 2's j (pos, N, C, bytes since RESUME) is the right first ring byte.
 * Other switches: SOFT (ring stores land at once; published messages survive the link's death; else verbs),
 *   CRASH (A may die), EXEC (B may exec: needs its rx back in the kernel), FROZEN (B's application may stop reading),
 *   REQRESP (A closes only after B has everything: a request-response program).
 */
#ifndef NB
#define NB 3            /* application bytes per direction */
#endif
#ifndef CAP
#define CAP 2           /* ring capacity */
#endif
#ifndef NEP
#define NEP 2           /* epochs (attaches) */
#endif
#ifndef ND
#define ND 1            /* directions */
#endif
#ifndef NL
#define NL 2            /* links that may exist, one after the other */
#endif
#ifndef MAXVOL
#define MAXVOL 1        /* voluntary retreats by A, all directions together */
#endif
#ifndef MAXKILL
#define MAXKILL NL      /* link deaths */
#endif
#ifndef HAND
#define HAND 2          /* items one kernel read may return */
#endif
#ifndef KC
#define KC  14          /* kernel socket room: never full (PROTOCOL.md: F14) */
#endif
#define R   2           /* bytes in a record */
#define QL  8           /* link queue: never full */

mtype = { SWITCH, SWITCHED, REFUSED, DATA, CREDIT, FIN, PLEASE, RELEASED, UNBIND,  /* link messages */
          APP, SW1, SW2, RS1, RS2, KFIN, KRST };                 /* kernel items: one byte each; R=2 bytes a record */

#define RAW     0
#define SWING   1       /* A: SWITCH sent, record not yet      */
#define ON      2       /* A: record sent; B: record swallowed */
#define PUMP    3       /* A: resending retained bytes raw     */
#define CLOSED  4
#define NOTED   5       /* B: N noted, not answered: nothing but raw bytes can come */
#define READY   6       /* B: answered; the next byte at N decides */

#define NOFIN 200
#define X(d,l) ((d)*NL+(l))
#ifdef NO_RELEASE
#define MAYREUSE true
#else
#define MAYREUSE (S[d].e==0 || S[d].rel)        /* B has said RELEASED (or REFUSED) for the last epoch */
#endif
#if ND>1
#define MYTXRAW (S[1-d].st==RAW || S[1-d].st==CLOSED)
#define MAYATT (!noattach[d])
#else
#define MYTXRAW true
#define MAYATT (!noattach[d])
#endif
#ifdef REQRESP
#define MAYCLOSE (B[d].rx==NB)
#else
#define MAYCLOSE true
#endif
#ifdef NO_NOTICE
#define NOTICES false
#else
#define NOTICES true
#endif
#ifdef OLD_LINGER
#define ARMED(d) (S[d].st==SWING || S[d].st==PUMP)
#else
#if defined(SOFT) || defined(NO_LINGER)
#define ARMED(d) false                          /* soft: never */
#else
#define ARMED(d) (S[d].st==SWING || (S[d].st==PUMP && S[d].ab))
#endif
#endif
#ifdef SOFT
#define SHORT (S[d].st!=RAW && S[d].st!=CLOSED)
#else
#define SHORT (len(k[d]) < B[d].left + S[d].done)
#endif
#if !defined(CRASH) || defined(NO_BAR)
#define BAR true
#else
#ifdef SOFT
#define BAR (S[d].st==RAW || S[d].st==CLOSED)   /* compare-and-swap of the slot's state word RAW -> BARRED */
#else
#define BAR (len(k[d]) >= B[d].left + S[d].done)/* FIONREAD: all resent bytes have arrived (FIN/RST item not counted) */
#endif
#endif
#ifdef SOFT
#define DRAINED(c) (len(c)==0)  /* published messages lie in shared memory: they survive the link's death */
#else
#define DRAINED(c) true         /* verbs: any suffix may be lost */
#endif

#ifdef NO_SHARED
#define MISSING (B[d].st==ON && S[d].e==B[d].e && B[d].rx < S[d].base + S[d].P)
#else
#ifdef NO_REREAD
#define MISSING ((B[d].st==ON && B[d].C<B[d].Pb) || (B[d].st!=ON && S[d].e>0 && B[d].rx < S[d].base + S[d].P))
#else
#define MISSING (S[d].e>0 && B[d].rx < S[d].base + S[d].P)
#endif
#endif

typedef Snd { byte st; byte e; byte l; byte sent; byte base; byte P; byte K; byte kc; byte ps; bit ab; bit fin; bit rel; bit done };
typedef Rcv { byte st; byte e; byte l; byte N; byte pos; byte C; byte Pb; byte drop; byte left; byte rx; byte finP; byte resK;
              byte held; bit part; bit kfin; bit krst; bit eof; bit rst; bit want; bit dumb; bit frozen; bit stop };
#ifdef CHECKJ           /* section 2's j, computed from what B really has: pos, N of the slot, C, bytes since RESUME */
byte sN[ND]; byte met[ND]; byte since[ND]; bit fsh[ND];
#define JMET met[d] = B[d].e
#define JRES since[d] = 0
#define JRAW since[d]++
#define JATT sN[d] = S[d].kc
#else
#define JMET skip
#define JRES skip
#define JRAW skip
#define JATT skip
#endif
typedef Ring { byte m[CAP]; bit freed; bit unb };
Snd S[ND];
Rcv B[ND];
Ring ring[ND*NL];
bit dead[NL];                   /* the link is really dead */
bit ak[ND*NL];                  /* end A of the direction knows it */
bit bk[ND*NL];                  /* end B of the direction knows it */
bit crashed[ND];
bit noattach[ND];
bit crashes; byte vol; byte kill; byte execs; byte look;
byte fins;

chan k[ND]       = [KC] of { mtype, byte };
chan ab[ND*NL]   = [QL] of { mtype, byte, byte };       /* A -> B: m, epoch, value */
chan ba[ND*NL]   = [QL] of { mtype, byte, byte };       /* B -> A */

inline postA(d,mm,ee,vv)    { if :: !dead[S[d].l] -> ab[X(d,S[d].l)]!mm(ee,vv) :: else fi }
inline postB(d,lk,mm,ee,vv) { if :: !dead[lk] -> ba[X(d,lk)]!mm(ee,vv) :: else fi }

/* ================================================ end A ================================================ */
inline abandon(d) { S[d].ps = S[d].base; S[d].st = PUMP; S[d].ab = 1 }       /* no record; raw from ring byte 0 on */
inline resume(d)  { k[d]!RS1(S[d].K); k[d]!RS2(S[d].P); S[d].kc = S[d].kc + R;
                    S[d].ps = S[d].base + S[d].K; S[d].st = PUMP; S[d].ab = 0 }
inline retreat(d) {                                             /* at any moment; waits for nothing */
  if
#ifdef NO_ABANDON
  :: S[d].st==SWING && !ak[X(d,S[d].l)] -> resume(d)
  :: S[d].st==SWING && ak[X(d,S[d].l)] -> abandon(d)
#else
  :: S[d].st==SWING -> abandon(d)
#endif
  :: S[d].st==ON    -> resume(d)
  :: else
  fi }

inline ringput(d) {
#ifdef SOFT
  assert(!ring[X(d,S[d].l)].freed);                             /* a store into memory that B has recycled */
  ring[X(d,S[d].l)].m[S[d].P % CAP] = S[d].sent;
#endif
#ifdef EARLY                    /* verbs: the NIC's write lands before B's software sees the completion */
  if :: !dead[S[d].l] -> assert(!ring[X(d,S[d].l)].freed); ring[X(d,S[d].l)].m[S[d].P % CAP] = S[d].sent :: else fi;
#endif
  postA(d,DATA,S[d].e,S[d].sent); S[d].P++; S[d].sent++ }

inline attach(d,nl) {  /* inside a write: tx lock held, no kernel write in flight, the first byte b0 in hand */
  S[d].l = nl; S[d].e++; S[d].base = S[d].sent; S[d].P = 0; S[d].K = 0; S[d].st = SWING; S[d].rel = 0; JATT;
  postA(d,SWITCH,S[d].e,S[d].kc); ringput(d) }

proctype Sender(byte d) {
#ifdef CRASH
  byte cn, cv; mtype cm; bit keep;
#endif
end_s:
  do
  :: atomic { !S[d].done && S[d].st==RAW && S[d].sent<NB -> k[d]!APP(S[d].sent); S[d].kc++; S[d].sent++ }
  :: atomic { !S[d].done && S[d].st==RAW && S[d].sent<NB && S[d].e<NEP && !ak[X(d,S[d].l)] && MAYREUSE && MAYATT -> attach(d,S[d].l) }
#if NL>1
  :: atomic { !S[d].done && S[d].st==RAW && S[d].sent<NB && S[d].e<NEP && ak[X(d,0)] && S[d].l==0 && !ak[X(d,1)] && MAYATT -> attach(d,1) }
#endif
  :: atomic { !S[d].done && (S[d].st==SWING || S[d].st==ON) && S[d].sent<NB && S[d].P-S[d].K<CAP -> ringput(d) }
  :: atomic { !S[d].done && (S[d].st==SWING || S[d].st==ON) && S[d].sent==NB && !S[d].fin -> S[d].fin = 1; postA(d,FIN,S[d].e,S[d].P) }
#ifdef NO_HOLD
  :: atomic { !S[d].done && S[d].st==ON && S[d].fin -> k[d]!KFIN(0); S[d].st = CLOSED; S[d].done = 1 }
#endif
#ifdef NO_RSFIN
  :: atomic { !S[d].done && S[d].st==ON && S[d].fin && S[d].K==S[d].P -> k[d]!KFIN(0); postA(d,UNBIND,S[d].e,0);
              S[d].st = CLOSED; S[d].done = 1 }
#else
  :: atomic { !S[d].done && S[d].st==ON && S[d].fin && S[d].K==S[d].P -> resume(d) }  /* RESUME(P,P), then the kernel FIN from RAW */
#endif
  :: atomic { !S[d].done && vol>0 && (S[d].st==SWING || S[d].st==ON) -> vol--; retreat(d) }
#ifdef FROZEN
  :: atomic { !S[d].done && (S[d].st==SWING || S[d].st==ON) -> retreat(d) }        /* the writer's no-progress timer */
#endif
  :: atomic { !S[d].done && S[d].st==PUMP && S[d].ps<S[d].sent && len(k[d])<KC ->
#ifdef SOFT
              assert(!ring[X(d,S[d].l)].freed);                 /* A resends out of its mapping of B's ring */
              assert(ring[X(d,S[d].l)].m[(S[d].ps-S[d].base) % CAP] == S[d].ps);
#endif
              k[d]!APP(S[d].ps); S[d].kc++; S[d].ps++ }
  :: atomic { !S[d].done && S[d].st==PUMP && S[d].ps==S[d].sent -> S[d].st = RAW; S[d].fin = 0; postA(d,UNBIND,S[d].e,0) }
  :: atomic { !S[d].done && S[d].st==RAW && S[d].sent==NB && len(k[d])<KC && MAYCLOSE -> k[d]!KFIN(0); S[d].done = 1; S[d].st = CLOSED }
#ifdef CRASH
  :: atomic { !S[d].done && crashes -> crashed[d] = 1;
              if                                                /* killed in the middle of writing a record */
              :: true
              :: S[d].st==ON && len(k[d])<KC-1 -> k[d]!RS1(S[d].K)
              :: S[d].st==SWING && !ak[X(d,S[d].l)] && ba[X(d,S[d].l)]?[SWITCHED,eval(S[d].e),0] -> k[d]!SW1(S[d].e)
              fi;
              if
              :: ARMED(d) -> cn = len(k[d]); keep = 1;          /* RST: any suffix of what the kernel holds is discarded */
                 do
                 :: cn>0 -> k[d]?cm(cv); cn--; if :: keep -> k[d]!cm(cv) :: true -> keep = 0 fi
                 :: cn==0 -> break
                 od; cm = 0; cv = 0; keep = 0;
                 k[d]!KRST(0)
              :: else -> k[d]!KFIN(0)
              fi;
              dead[0] = 1;
#if NL>1
              dead[1] = 1;
#endif
              S[d].done = 1;
#ifndef SOFT
              S[d].st = CLOSED
#endif
              }                         /* SOFT: the slot's shared state stays as it was */
#endif
  :: S[d].done -> break
  od }

proctype ABg(byte d; byte l) {  /* A's handler of link l: messages in order, then (maybe) the death */
  byte e, v; mtype m;
end_a:
  do
  :: atomic { !crashed[d] && !ak[X(d,l)] && len(ba[X(d,l)])>0 -> ba[X(d,l)]?m(e,v);
       if
#ifndef NO_EPOCH
       :: e != S[d].e || l != S[d].l                    /* an old epoch's: ignored */
       :: e == S[d].e && l == S[d].l ->
#else
       :: l != S[d].l
       :: l == S[d].l ->
#endif
          if
          :: m==SWITCHED && S[d].st==SWING -> k[d]!SW1(S[d].e); k[d]!SW2(S[d].e); S[d].kc = S[d].kc + R; S[d].st = ON
          :: m==REFUSED  -> if :: S[d].st==SWING -> abandon(d) :: else fi; S[d].rel = 1
          :: m==CREDIT && S[d].st==ON -> if :: v>S[d].K -> S[d].K = v :: else fi
#ifdef NO_LATCH
          :: m==CREDIT && S[d].st==PUMP -> if :: S[d].ps==S[d].base+S[d].K && v>S[d].K -> S[d].K = v; S[d].ps = S[d].base+v :: else fi
#endif
          :: m==PLEASE   -> retreat(d)
          :: m==RELEASED -> S[d].rel = 1
          :: else
          fi
       fi; m = 0; e = 0; v = 0 }
  :: atomic { !crashed[d] && dead[l] && !ak[X(d,l)] && DRAINED(ba[X(d,l)]) && NOTICES -> do :: ba[X(d,l)]?_,_,_ :: len(ba[X(d,l)])==0 -> break od;
              ak[X(d,l)] = 1;
              if :: S[d].l==l -> retreat(d) :: else fi }
  od }

/* ================================================ end B ================================================ */
inline deliver(d,ss) { assert(ss==B[d].rx); assert(!B[d].eof); B[d].rx++ }      /* exactly once, in order, never after EOF */

inline freering(d,lk) {          /* recycle: B itself out of the epoch AND (A's UNBIND | verbs: B's QP destroyed) */
#ifdef NO_FREE
  ring[X(d,lk)].freed = 1
#else
  if
  :: ring[X(d,lk)].unb && B[d].e==NEP -> ring[X(d,lk)].freed = 1   /* (kept for the next epoch otherwise) */
#ifndef SOFT
  :: !ring[X(d,lk)].unb && bk[X(d,lk)] -> ring[X(d,lk)].freed = 1
#endif
  :: else
  fi
#endif
}
inline leave(d) {               /* B is out of the epoch: everything after this is raw.  RELEASED only after the drop */
  B[d].st = RAW; B[d].part = 0;
#ifndef NO_FINCLR
  B[d].finP = NOFIN;
#endif
  if :: B[d].drop==0 -> postB(d,B[d].l,RELEASED,B[d].e,0) :: else fi;
  freering(d,B[d].l) }

inline answer(d) {              /* SWITCHED exactly when all kernel bytes up to N have been delivered */
  if
#ifndef NO_DELAY
  :: B[d].st==NOTED && B[d].pos==B[d].N -> B[d].st = READY; postB(d,B[d].l,SWITCHED,B[d].e,0)
#endif
  :: else
  fi }

inline rawbyte(d,ss) {           /* a kernel byte that belongs to the application's stream */
  if :: B[d].left>0 -> B[d].left-- :: else fi;
  if
  :: B[d].drop>0 -> B[d].drop--;
#ifndef NO_COUNT
     B[d].pos++;
#endif
     if :: B[d].drop==0 -> postB(d,B[d].l,RELEASED,B[d].e,0) :: else fi
  :: else -> deliver(d,ss); B[d].pos++; JRAW
  fi }
inline recbyte(d) {
#ifndef NO_COUNT
  B[d].pos++
#else
  skip
#endif
}

inline eat(d,mm,ss) {             /* the one parser of kernel bytes: all that any read returned goes through it, in order */
  if
  :: mm==KFIN -> B[d].kfin = 1;
#ifdef NO_B0
     if :: B[d].part && B[d].st==READY -> deliver(d,B[d].held); B[d].part = 0 :: else fi
#else
     skip
#endif
  :: mm==KRST -> B[d].krst = 1
  :: mm!=KFIN && mm!=KRST ->
     if
     :: B[d].st==RAW -> assert(mm==APP); rawbyte(d,ss)
     :: B[d].st==NOTED || (B[d].st==READY && B[d].pos<B[d].N) ->
        assert(mm==APP);
        if :: B[d].pos==B[d].N -> leave(d) :: else fi;          /* raw at N before any answer: A has abandoned */
        rawbyte(d,ss); answer(d)
     :: B[d].st==READY && B[d].pos>=B[d].N ->
        if
#ifdef NO_B0
        :: !B[d].part && (mm==SW1 || (mm==APP && ss==look)) -> B[d].part = 1; B[d].held = ss   /* prefix: wait for more */
        :: B[d].part && mm==SW2 -> assert(ss==B[d].e); B[d].part = 0; recbyte(d); recbyte(d); B[d].st = ON
        :: B[d].part && mm==APP -> leave(d); rawbyte(d,B[d].held); rawbyte(d,ss)
        :: !B[d].part && mm==APP && ss!=look -> leave(d); rawbyte(d,ss)
#else
        :: !B[d].part && mm==SW1 -> B[d].part = 1; recbyte(d); B[d].N = B[d].pos         /* first byte is ~b0 */
        :: B[d].part && mm==SW2 -> assert(ss==B[d].e); B[d].part = 0; recbyte(d); B[d].st = ON; JMET
        :: !B[d].part && mm==APP -> leave(d); rawbyte(d,ss)                                 /* first byte is b0 */
#endif
        :: else -> assert(false)        /* RESUME where the SWITCH record or a raw byte should be */
        fi
     :: B[d].st==ON ->
        if
        :: mm==RS1 -> B[d].resK = ss; recbyte(d)
        :: mm==RS2 -> recbyte(d); assert(B[d].resK <= B[d].C && B[d].C <= ss);
                     B[d].drop = B[d].C - B[d].resK; B[d].left = ss - B[d].resK; JRES; leave(d)
        :: else -> assert(false)        /* an application byte would be taken for a record */
        fi
     fi
  fi }

proctype Reader(byte d) {
  byte n, s0, s1; mtype m0, m1;
#if ND>1
  byte oo;
#endif
again:
  do
  /* --- the system call: bytes are in the thread's hand, the library has not looked at them yet (no lock held) --- */
  :: atomic { n==0 && !B[d].kfin && !B[d].krst && !B[d].want && !B[d].frozen && k[d]?[m0,s0] -> k[d]?m0(s0); n = 1;
       if
       :: HAND>1 && m0!=KFIN && m0!=KRST && len(k[d])>0 -> k[d]?m1(s1); n = 2
       :: true
       fi }
  :: atomic { n>0 -> eat(d,m0,s0); if :: n==2 -> m0 = m1; s0 = s1 :: else -> m0 = 0; s0 = 0 fi; m1 = 0; s1 = 0; n-- }
  /* --- ring read --- */
  :: atomic { n==0 && B[d].st==ON && B[d].C<B[d].Pb && !B[d].want && !B[d].frozen ->
              deliver(d, ring[X(d,B[d].l)].m[B[d].C % CAP]); B[d].C++;
              if :: true -> postB(d,B[d].l,CREDIT,B[d].e,B[d].C) 
                 :: B[d].C % CAP != 0 && B[d].C!=B[d].finP -> skip      /* a credit may be saved up, not the last one */
              fi }
  /* --- end of stream --- */
#ifdef NO_FINCLR
  :: atomic { n==0 && !B[d].eof && B[d].finP!=NOFIN && B[d].C==B[d].Pb && !B[d].want -> 
              B[d].eof = 1; assert(B[d].rx==S[d].sent) }
#else
  :: atomic { n==0 && !B[d].eof && B[d].st==ON && B[d].finP==B[d].C && !B[d].want -> B[d].eof = 1;
              assert(B[d].rx==S[d].sent);
              postB(d,B[d].l,CREDIT,B[d].e,B[d].C) }
#endif
  :: atomic { B[d].krst -> B[d].rst = 1; assert(crashed[d]); break }
#ifdef SOFT
  /* kernel FIN: A is dead or has closed, so the shared slot is final.  B's application has rx bytes; ring byte i of
     the slot's epoch is application byte base+i: whatever is missing is there (state, link, drop: all the same) */
  :: atomic { B[d].kfin && n==0 && !B[d].eof && MISSING ->
              assert(S[d].e>0 && B[d].rx>=S[d].base && !ring[X(d,S[d].l)].freed);
#ifdef CHECKJ
              if
              :: fsh[d]
              :: !fsh[d] && met[d]!=S[d].e -> assert(B[d].pos >= sN[d] + B[d].part && B[d].rx-S[d].base == B[d].pos-sN[d]-B[d].part)
              :: !fsh[d] && met[d]==S[d].e && B[d].st==ON -> assert(B[d].rx-S[d].base == B[d].C)
              :: !fsh[d] && met[d]==S[d].e && B[d].st!=ON -> assert(B[d].rx-S[d].base == B[d].C+since[d])
              fi; fsh[d] = 1;
#endif
              deliver(d, ring[X(d,S[d].l)].m[(B[d].rx-S[d].base) % CAP]);
              if :: B[d].st==ON -> B[d].C++ :: else fi }
  :: atomic { B[d].kfin && n==0 && (B[d].eof || !MISSING) -> if :: !B[d].eof -> assert(B[d].rx==S[d].sent) :: else fi;
              B[d].eof = 1; break }
#else
  :: atomic { B[d].kfin && n==0 && (B[d].st==RAW || B[d].st==NOTED || B[d].st==READY) ->
              if
              :: B[d].eof
#ifndef NO_LEFT
              :: !B[d].eof && B[d].left>0 -> B[d].rst = 1; assert(crashed[d])   /* RESUME promised more */
              :: !B[d].eof && B[d].left==0 -> assert(B[d].rx==S[d].sent); B[d].eof = 1
#else
              :: !B[d].eof -> assert(B[d].rx==S[d].sent); B[d].eof = 1
#endif
              fi; break }
  :: atomic { B[d].kfin && n==0 && B[d].st==ON && B[d].eof -> break }
#ifdef NO_VERDICT
  :: atomic { B[d].kfin && n==0 && B[d].st==ON && !B[d].eof && B[d].C==B[d].Pb ->
              assert(B[d].rx==S[d].sent); B[d].eof = 1; break }
#endif
  :: atomic { B[d].kfin && n==0 && B[d].st==ON && !B[d].eof && bk[X(d,B[d].l)] && B[d].C==B[d].Pb && B[d].C!=B[d].finP ->
              B[d].rst = 1; assert(crashed[d]); break }
#endif
#ifdef FROZEN
  :: atomic { !B[d].frozen -> B[d].frozen = 1; break }
#endif
  /* --- exec: B needs this direction back in the kernel.  It may swallow records and dropped bytes, not read data --- */
  :: atomic { execs>0 && n==0 && !B[d].want && !B[d].kfin && !B[d].krst && !B[d].eof && !B[d].part -> execs--; B[d].want = 1;
              if
#ifndef NO_DELAY
              :: B[d].st==NOTED -> postB(d,B[d].l,REFUSED,B[d].e,0); B[d].st = RAW; freering(d,B[d].l)
#endif
              :: B[d].st==READY || B[d].st==ON -> postB(d,B[d].l,PLEASE,B[d].e,0)
              :: else
              fi;
#if ND>1
              oo = 1-d; noattach[oo] = 1; retreat(oo)                   /* its own tx: retreats by itself, never attaches again */
#endif
              }
  :: atomic { B[d].want && B[d].st==READY && B[d].pos>=B[d].N && k[d]?[APP,_] && !B[d].part ->
#ifdef NO_B0
              k[d]?<m0,s0>; (s0!=look);
              m0 = 0; s0 = 0;
#endif
              leave(d) }                                        /* peeked b0: raw, left where it is */
  :: atomic { B[d].want && B[d].st==READY && B[d].pos>=B[d].N && (k[d]?[SW1,_] || k[d]?[SW2,_]) -> k[d]?m0(s0); eat(d,m0,s0); m0 = 0; s0 = 0 }
  :: atomic { B[d].want && B[d].st==ON && (k[d]?[RS1,_] || k[d]?[RS2,_]) -> k[d]?m0(s0); eat(d,m0,s0); m0 = 0; s0 = 0 }
  :: atomic { B[d].want && B[d].st==RAW && B[d].drop>0 && k[d]?[APP,_] -> k[d]?m0(s0); eat(d,m0,s0); m0 = 0; s0 = 0 }
  :: atomic { B[d].want && B[d].st!=RAW && (k[d]?[KFIN,_] || k[d]?[KRST,_]) -> B[d].rst = 1; break }   /* A died */
#ifdef CRASH
  :: atomic { B[d].want && B[d].st==RAW && crashed[d] && SHORT -> B[d].rst = 1; break }    /* A died: B resets, execs a broken conn */
#endif
  :: atomic { B[d].want && B[d].st==RAW && B[d].drop==0 && MYTXRAW && BAR -> B[d].dumb = 1; noattach[d] = 1;
              dead[0] = 1;                                      /* exec destroys the process's links */
#if NL>1
              dead[1] = 1;
#endif
              break }
  od;
  /* after exec: a plain program on a plain socket */
  if
  :: B[d].dumb ->
     do
     :: atomic { k[d]?m0(s0) ->
          if :: m0==APP -> deliver(d,s0)
             :: m0==KFIN -> assert(B[d].rx==S[d].sent); B[d].eof = 1; break
             :: m0==KRST -> B[d].rst = 1; break
             :: else -> assert(false)                           /* a record byte reached the application */
          fi; m0 = 0; s0 = 0 }
     od
  :: else
  fi;
  B[d].stop = 1 }

proctype BBg(byte d; byte l) {  /* B's handler of link l: messages in order, then (maybe) the death */
  byte e, v; mtype m; bit ok;
end_b:
  do
  :: B[d].dumb -> break
  :: atomic { !B[d].dumb && !bk[X(d,l)] && len(ab[X(d,l)])>0 -> ab[X(d,l)]?m(e,v);
       if
       :: m==SWITCH ->
          ok = 1;
#ifndef NO_REPEAT
          if :: B[d].want -> ok = 0 :: else fi;
#endif
#ifndef NO_REFUSE
          if :: B[d].st!=RAW || B[d].drop>0 || B[d].pos>v -> ok = 0 :: else fi;
#endif
          if
          :: ok ->
             B[d].st = NOTED; B[d].e = e; B[d].l = l; B[d].N = v; B[d].C = 0; B[d].Pb = 0; B[d].finP = NOFIN; B[d].part = 0;
#ifdef NO_DELAY
             B[d].st = READY; postB(d,l,SWITCHED,e,0)
#else
             answer(d)
#endif
          :: else -> postB(d,l,REFUSED,e,0)
          fi
       :: m==DATA ->            /* FIFO on the link ties data to the last SWITCH: no epoch needed in the immediate */
          assert(!ring[X(d,l)].freed);
          if
          :: B[d].l==l && B[d].e==e && (B[d].st==NOTED || B[d].st==READY || B[d].st==ON) ->
#if !defined(SOFT) && !defined(EARLY)
             ring[X(d,l)].m[B[d].Pb % CAP] = v;
#endif
             B[d].Pb++
          :: else
          fi
       :: m==FIN ->
#ifdef NO_FINCLR
          B[d].finP = v
#else
          if :: B[d].l==l && B[d].e==e && (B[d].st==NOTED || B[d].st==READY || B[d].st==ON) -> B[d].finP = v :: else fi
#endif
       :: m==UNBIND -> if :: e==NEP -> ring[X(d,l)].unb = 1 :: else fi;
          if :: B[d].l==l && B[d].e==e && B[d].st==RAW -> freering(d,l) :: else fi
       :: else -> assert(false)
       fi; m = 0; e = 0; v = 0; ok = 0 }
  :: atomic { !B[d].dumb && dead[l] && !bk[X(d,l)] && DRAINED(ab[X(d,l)]) -> do :: ab[X(d,l)]?_,_,_ :: len(ab[X(d,l)])==0 -> break od;
              bk[X(d,l)] = 1;
              if
#ifndef NO_DELAY
              :: B[d].l==l && B[d].st==NOTED -> B[d].st = RAW   /* not answered: no record can come */
#endif
              :: else
              fi }
  od }

init {
  byte i;
  atomic {
    if :: vol = 0 :: vol = MAXVOL fi;
    if :: kill = 0 :: MAXKILL>0 -> kill = MAXKILL fi;
#ifdef CRASH
    if :: crashes = 0 :: crashes = 1 fi;
#endif
#ifdef EXEC
    if :: execs = 0 :: execs = EXEC fi;
#endif
#ifdef NO_B0
    if :: look = 0 :: look = 1 :: look = NB-1 :: look = 255 fi;
#else
    look = 255;
#endif
    i = 0;
    do
    :: i<ND -> B[i].finP = NOFIN; run Sender(i); run Reader(i); run ABg(i,0); run BBg(i,0);
#if NL>1
       run ABg(i,1); run BBg(i,1);
#endif
       i++
    :: else -> break
    od; i = 0
  }
end_i:
  do
  :: atomic { kill>0 && !dead[0] -> kill--; dead[0] = 1 }
#if NL>1
  :: atomic { kill>0 && dead[0] && !dead[1] -> kill--; dead[1] = 1 }
#endif
  :: atomic { timeout ->        /* nothing can move any more: everybody must be done */
       i = 0;
       do
       :: i<ND ->
#ifdef FROZEN
          assert(S[i].st==CLOSED);      /* A's own retreat completes whatever B's application does */
#else
          assert(S[i].done && B[i].stop);
          assert(B[i].eof || B[i].rst);
#if defined(CRASH) && defined(SOFT)
          assert(B[i].want || (B[i].eof && !B[i].rst && B[i].rx==S[i].sent));  /* every accepted byte, then EOF: killed or not */
#endif
          assert(crashed[i] || (B[i].rx==NB && !B[i].rst));
#endif
          i++
       :: else -> break
       od; break }
  od }
