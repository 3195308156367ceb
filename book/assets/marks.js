// Proof marks: each opens the code behind a claim, in its place, and closes it again; one button opens all of a page.
// Without this script a mark leads to the fold of its proof, which has a line of its own then.
(() => {
  "use strict";
  document.documentElement.classList.add("ln-marks");
  const proofOf = (mark) => document.getElementById(mark.hash.slice(1));
  const remembered = {
    get all() { try { return localStorage.getItem("ln-proofs") === "open"; } catch { return false; } },
    set all(open) { try { localStorage.setItem("ln-proofs", open ? "open" : "closed"); } catch { /* not for pages from a folder, in some browsers */ } },
  };

  /** Scroll as little as shows an opened proof: its mark may stand some equations above it. */
  function bringIntoSight(proof) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    proof.scrollIntoView({ block: "nearest", behavior: still ? "instant" : "smooth" });
  }

  /** Let a mark be a button that shows whether its proof is open. */
  function wire(mark) {
    const proof = proofOf(mark);
    const show = () => mark.setAttribute("aria-expanded", proof.open);
    mark.setAttribute("role", "button");
    mark.setAttribute("aria-controls", proof.id);
    proof.firstElementChild.tabIndex = -1; // the mark is how to open it
    proof.addEventListener("toggle", show);
    show();
    const toggle = (event) => {
      event.preventDefault();
      proof.open = !proof.open;
      show(); // the event comes later
      if (proof.open) bringIntoSight(proof);
    };
    mark.addEventListener("click", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) toggle(event);
    });
    mark.addEventListener("keydown", (event) => {
      if (event.key === " ") toggle(event);
    });
  }

  /** A button below the title that opens or closes every proof of the page. */
  function openAll(proofs) {
    const button = document.createElement("button");
    const opens = () => proofs.some((proof) => !proof.open);
    const name = () => { button.textContent = `${opens() ? "Open" : "Close"} all ${proofs.length} proofs`; };
    button.type = "button";
    button.className = "ln-all-proofs";
    button.title = "On every page";
    button.addEventListener("click", () => {
      remembered.all = opens();
      const open = opens();
      for (const proof of proofs) proof.open = open;
    });
    for (const proof of proofs) {
      proof.open = remembered.all;
      proof.addEventListener("toggle", name);
    }
    name();
    document.querySelector(".bd-article h1").after(button);
  }

  /** Open the proof that an address names. */
  function follow() {
    const proof = document.getElementById(location.hash.slice(1));
    if (!proof?.matches(".ln-proof")) return;
    proof.open = true;
    proof.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  function start() {
    const marks = [...document.querySelectorAll(".ln-proof-mark")];
    if (!marks.length) return;
    marks.forEach(wire);
    openAll(marks.map(proofOf));
    follow();
    addEventListener("hashchange", follow);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
