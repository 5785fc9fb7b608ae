"""Names of species that begin like an option: "E. coli" is not option E with the text "coli"."""

from __future__ import annotations

from .._pattern import pattern
from .words import words

# What questions of biology and medicine abbreviate. Options are written in small letters too ("B. increases",
# "C. lupus"), so that nothing but the name itself tells the two apart: no word that says something else is among them.
_EPITHETS = frozenset(
    words(
        "abortus aculeatus aegypti aerogenes albicans albopictus anthracis asburiae aspersa auris bassiana batatas",
        "baumannii botulinum briggsae burgdorferi burnetii caballus capsulatum carpio catus cepa cepacia cereus",
        "cloacae coioides coli contortus corrodens crescentus curcas dendrobatidis difficile diphtheriae discoideum",
        "distachyon ducreyi elegans erectus esula faecalis faecium familiaris flavus floridae fragilis freundii",
        "fumigatus gallus gambiae germanica glaber glabrata gracilis granulosus griseus habilis hansenii henselae",
        "hepatica heteroclitus hirsutum histolytica huxleyi hydrophila infantis influenzae intestinalis israelii",
        "jejuni lamblia limosus lividum lumbricoides maenas majus malayi megaterium melanogaster melitensis mellifera",
        "mexicanum milii mississippiensis mojavensis morsitans multilocularis neanderthalensis neoformans nidulans",
        "nucleatum oleracea oxysporum pacificus parapsilosis parvum perfringens pertussis pisum platyrhynchos",
        "pneumoniae porcellus pseudomallei psittaci pulex punctatus pylori radiodurans rapa reinhardtii rerio",
        "rhusiopathiae ricinus salinarum sapidus sapiens sativum sativus savignyi scapularis simulans solani subtilis",
        "tauschii terrestris tetani thaliana thetaiotaomicron thuringiensis trachomatis tropicalis tularensis",
        "tumefaciens vaginalis vermicularis vesca volcanii vulgare vulgaris",
    )
)
_NAMED = pattern(r"[*_]{0,3}+\.[*_]{0,3}+\s++(?P<epithet>[a-z]{3,24})(?![\w-])")


def names_species(following: str) -> bool:
    """Whether a capital letter is the genus of what follows it."""
    named = _NAMED.match(following)
    return named is not None and named["epithet"] in _EPITHETS
