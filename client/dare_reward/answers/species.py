"""Names of species that begin like an option: "E. coli" is not option E with the text "coli"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._pattern import pattern
from .words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["names_species"]

# What questions of biology and medicine abbreviate, by the initial of the genus. Options are written in small letters
# too ("B. increases", "C. lupus"), so that nothing but the name itself tells the two apart: no word that says something
# else as well is among them.
_EPITHETS: dict[str, Sequence[str]] = {
    "A": words(
        "aegypti albopictus baumannii cepa fumigatus flavus gambiae hydrophila israelii lumbricoides majus mellifera",
        "mexicanum mississippiensis nidulans pisum platyrhynchos sativum tauschii thaliana tumefaciens",
    ),
    "B": words(
        "abortus anthracis bassiana burgdorferi cepacia cereus dendrobatidis distachyon floridae fragilis germanica",
        "henselae infantis malayi megaterium melitensis oleracea pertussis pseudomallei rapa",
        "subtilis terrestris thetaiotaomicron thuringiensis",
    ),
    "C": words(
        "albicans auris botulinum briggsae burnetii carpio coli crescentus difficile diphtheriae elegans familiaris",
        "freundii griseus glabrata intestinalis jejuni maenas milii neoformans parapsilosis parvum",
        "perfringens pneumoniae porcellus psittaci reinhardtii sapidus savignyi sativus tetani trachomatis tropicalis",
    ),
    "D": words("discoideum hansenii melanogaster mojavensis pulex radiodurans rerio simulans"),
    "E": words(
        "aerogenes asburiae caballus cloacae coli coioides corrodens esula faecalis faecium gracilis granulosus",
        "histolytica huxleyi multilocularis nidulans rhusiopathiae vermicularis",
    ),
    "F": words("catus hepatica heteroclitus nucleatum oxysporum solani tularensis vesca"),
    "G": words("aculeatus gallus hirsutum intestinalis lamblia morsitans vaginalis"),
    "H": words(
        "aspersa capsulatum contortus ducreyi erectus glaber habilis influenzae neanderthalensis pylori sapiens",
        "salinarum vulgare vulgaris volcanii",
    ),
    "I": words("batatas limosus pacificus punctatus ricinus scapularis"),
    "J": words("curcas lividum"),
}  # fmt: skip
_NAMED = pattern(r"[*_]{0,3}+\.[*_]{0,3}+\s++(?P<epithet>[a-z]{3,24})(?![\w-])")


def names_species(letter: str, following: str) -> bool:
    """Whether a capital letter and what follows it are the name of a species."""
    named = _NAMED.match(following)
    return named is not None and named["epithet"] in _EPITHETS.get(letter, ())
